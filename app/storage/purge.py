"""Removes what a deletion leaves: text in the database's files, and words in the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from sqlalchemy import String, select, type_coerce, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.owners import NOBODY
from app.storage import full_text
from app.storage.database import empty_log
from app.storage.tables import Document, LedgerAnswer, LedgerEntry, LedgerRead

log = logging.getLogger(__name__)

_WAIT_MS = 200
_AGAIN_S = 0.5


class Purge:
    """Removes deleted text from the full-text index and the write-ahead log.

    A reader of the old text does not delay a deletion: what the reader blocks is done in the
    background once it has gone, or at the next start.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions
        self._rest: asyncio.Task[None] | None = None

    async def now(self) -> None:
        """Remove deleted text now, as far as no reader blocks that."""
        async with self._sessions.begin() as session:
            await full_text.merge(session, "chunks_fts")
        if await empty_log(self._sessions, _WAIT_MS):
            return
        if self._rest is None or self._rest.done():
            log.info("deleted text leaves the write-ahead log once its readers are gone")
            self._rest = asyncio.create_task(self._later(), name="purge")

    async def settled(self) -> None:
        """Return once nothing deleted is left in the log."""
        if self._rest is not None:
            await self._rest

    async def close(self) -> None:
        """Stop waiting for readers."""
        if self._rest is not None:
            self._rest.cancel()
            await asyncio.wait([self._rest])

    async def _later(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN_S)
            try:
                if await empty_log(self._sessions, _WAIT_MS):
                    return
            except OperationalError as error:  # a full or locked disk
                log.debug("the write-ahead log cannot be emptied: %s", error.orig)


# The ledger.


async def blank_words(session: AsyncSession, document: str) -> None:
    """Erase the words of answers that read a document, and which passages programs read.

    Their digests stay.
    """
    named = type_coerce(LedgerAnswer.sources, String).contains(document, autoescape=True)
    values = dict.fromkeys(("words", "sources", "passages"))
    await session.execute(update(LedgerAnswer).where(named).values(values))
    read = type_coerce(LedgerRead.passages, String).contains(document, autoescape=True)
    await session.execute(update(LedgerRead).where(read).values(passages=None))


async def blank_words_of_deleted(session: AsyncSession, documents: Iterable[str]) -> None:
    """`blank_words` for those documents that have been deleted."""
    named = set(documents)
    if not named:
        return
    there = await session.scalars(select(Document.id).where(Document.id.in_(named)))
    for document in named - set(there):
        await blank_words(session, document)


async def blank_given(session: AsyncSession, answers: Iterable[str]) -> None:
    """Erase what the cloud was asked with for these answers; its digest stays."""
    named = LedgerAnswer.id.in_(list(answers))
    await session.execute(update(LedgerAnswer).where(named).values(given=None))


async def give_up_ledger(session: AsyncSession) -> None:
    """Erase the current owner's words and sources from the ledger, and let nobody read the rest.

    The chain is shared by all owners: its hashes, sizes and times stay.
    """
    values = dict.fromkeys(("words", "given", "sources", "passages"))
    await session.execute(update(LedgerAnswer).values(values))
    await session.execute(update(LedgerRead).values(passages=None))
    for table in (LedgerAnswer, LedgerRead, LedgerEntry):
        await session.execute(update(table).values(owner=NOBODY))
