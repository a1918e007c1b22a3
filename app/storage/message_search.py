"""The full-text index over the messages of conversations, and its search."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, column, literal_column, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.owners import everyone
from app.storage import full_text
from app.storage.tables import StoredMessage

_SEARCH = table("message_search", column("message"), column("conversation"))
_PLACE: ColumnElement[str] = literal_column("snippet(message_search, 0, '', '', '…', 12)")


async def index(session: AsyncSession, message: StoredMessage) -> None:
    """Make the search find the message's current text."""
    await forget(session, message=message.id)
    said = {"id": message.id, "of": message.conversation_id, "text": message.text}
    new = text("INSERT INTO message_search(text, message, conversation) VALUES (:text, :id, :of)")
    with everyone():
        await session.execute(new, said)


async def forget(session: AsyncSession, *, message: str = "", conversation: str = "") -> None:
    """Remove messages from the search; `merge` removes their words from the files."""
    of = "message = :message OR conversation = :conversation"
    gone = text(f"DELETE FROM message_search WHERE {of}")  # noqa: S608
    with everyone():
        await session.execute(gone, {"message": message, "conversation": conversation})


async def merge(session: AsyncSession) -> None:
    """Remove deleted words from the search index's files; only a merge does."""
    await full_text.merge(session, "message_search")


async def found(session: AsyncSession, words: Sequence[str]) -> dict[str, str]:
    """The conversations whose messages have all the words, each with the best snippet."""
    if not words:
        return {}
    matching = (
        select(_SEARCH.c.conversation, _PLACE)
        .join(StoredMessage, StoredMessage.id == _SEARCH.c.message)
        .where(text("message_search MATCH :query"))
        .order_by(text("message_search.rank DESC"))
    )
    rows = await session.execute(matching, {"query": " ".join(f'"{word}"*' for word in words)})
    return {row[0]: row[1] for row in rows}
