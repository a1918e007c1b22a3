"""Who may read documents, and which collections they are in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.erasure import blank_passages
from app.documents.index import DocumentIndex
from app.owners import everyone
from app.storage.owned import require_own
from app.storage.tables import Chunk, Document


@dataclass(frozen=True)
class Collections:
    """Counts, moves and shares; `changing` keeps others from changing rows meanwhile."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
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

    async def share(self, document: Document, *, shared: bool) -> Document:
        """Let all others read a document from now on, or nobody else; returns the document.

        Where it is no longer shared, its passages vanish from others' answers, whose text stays.
        Raises `NotYoursError`.
        """
        require_own(document)
        of_document = Chunk.document_id == document.id
        async with self.changing:
            async with self.sessions.begin() as session:
                for table, those in ((Document, Document.id == document.id), (Chunk, of_document)):
                    await session.execute(update(table).where(those).values(shared=shared))
                if not shared:
                    with everyone():
                        await blank_passages(session, document.id, but_of=document.owner)
                chunks = list(await session.scalars(select(Chunk.id).where(of_document)))
                document = await session.get_one(Document, document.id)
            await self.index.place(document, chunks)
            return document
