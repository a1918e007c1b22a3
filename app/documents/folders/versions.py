"""Which documents the files of watched folders leave behind, as statements of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.documents.readers.sniff import Kind
from app.storage.tables import Document, WatchedFile

_HELD = exists().where(
    or_(WatchedFile.document_id == Document.id, WatchedFile.previous_id == Document.id)
)


def is_delivered_mail(document: Document, kind: str) -> bool:
    """Whether it is mail as it was delivered, in a file whose name is for programs."""
    named = document.by_hand or document.filename.lower().endswith(".eml")
    return kind == Kind.EMAIL and not named


async def orphans(session: AsyncSession, documents: Iterable[str | None]) -> Sequence[str]:
    """Those of the documents that no file has any more, and nobody uploaded."""
    chosen = Document.id.in_({each for each in documents if each is not None})
    alone = select(Document.id).where(chosen, ~Document.by_hand, ~_HELD)
    return (await session.scalars(alone)).all()


async def superseded(session: AsyncSession, document: str) -> Sequence[str]:
    """A document that can be found takes the place of what its files held before.

    Returns the orphans of that.
    """
    shown = update(Document).where(Document.id == document, ~Document.by_hand)
    await session.execute(shown.values(replaces=False))
    files = WatchedFile.document_id == document, WatchedFile.previous_id.is_not(None)
    previous = (await session.scalars(select(WatchedFile.previous_id).where(*files))).all()
    await session.execute(update(WatchedFile).where(*files).values(previous_id=None))
    return await orphans(session, previous)
