"""Erases from the ledger what it says about deleted documents."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import String, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.owners import NOBODY
from app.storage.tables import Document, LedgerAnswer, LedgerEntry, LedgerRead


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
