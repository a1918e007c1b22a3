"""Records of what programs read of the user's documents: program, tool and passages."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage.tables import LedgerRead
from dragon.errors import InvalidRequestError


@dataclass(frozen=True)
class Passage:
    """A part of a document's text, by character offsets."""

    document: str
    start: int
    end: int


@dataclass(frozen=True)
class ProgramRead:
    """Something given to a program: `reader` is the program's own name, `bytes` its total size.

    `answer` is the ledger id of the answer it was given, if it was one.
    """

    reader: str
    tool: str
    bytes: int
    passages: Sequence[Passage] = ()
    answer: str | None = None
    id: str = field(default_factory=lambda: f"read-{uuid.uuid4().hex}")
    at: float = field(default_factory=time.time)

    def stated(self, digest: str) -> dict[str, object]:
        """The fields covered by the chain; `digest` is that of the passages."""
        names = ("id", "at", "reader", "tool", "answer", "bytes")
        return {**{name: getattr(self, name) for name in names}, "digest": digest}


async def reads(
    sessions: async_sessionmaker[AsyncSession], limit: int, before: str | None
) -> Sequence[LedgerRead]:
    """Reads, newest first, older than `before` if given.

    Raises `InvalidRequestError` if the ledger has no read `before`.
    """
    newest_first = select(LedgerRead).order_by(LedgerRead.number.desc()).limit(limit)
    async with sessions() as session:
        if before is not None:
            of_it = select(LedgerRead.number).where(LedgerRead.id == before)
            if (number := await session.scalar(of_it)) is None:
                raise InvalidRequestError(f"There is no read '{before}'.", param="before")
            newest_first = newest_first.where(LedgerRead.number < number)
        return (await session.scalars(newest_first)).all()
