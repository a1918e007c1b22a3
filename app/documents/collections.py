"""Collections: names that documents are kept apart by; "" is that of those in none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage.tables import Document


@dataclass(frozen=True)
class Collections:
    """Counts and moves documents; `changing` keeps others from changing their rows meanwhile."""

    sessions: async_sessionmaker[AsyncSession]
    changing: asyncio.Lock

    async def counted(self) -> Sequence[tuple[str, int]]:
        """Every collection that has a document, by name, and how many it has."""
        counts = select(Document.collection, func.count()).group_by(Document.collection)
        async with self.sessions() as session:
            rows = await session.execute(counts.order_by(Document.collection))
            return [(name, count) for name, count in rows]

    async def move(self, documents: Sequence[str], collection: str) -> None:
        """Put documents of one's own into a collection; they keep their ids."""
        chosen = update(Document).where(Document.id.in_(documents))
        async with self.changing, self.sessions.begin() as session:
            await session.execute(chosen.values(collection=collection))
