"""The full-text index over the messages of conversations, and what a search of it finds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage import full_text
from app.storage.tables import Message


async def index(session: AsyncSession, message: Message) -> None:
    """Make the search find what the message says now."""
    await forget(session, message.id)
    await session.execute(
        text("INSERT INTO message_search(text, message, conversation) VALUES (:text, :id, :of)"),
        {"id": message.id, "of": message.conversation_id, "text": message.text},
    )


async def forget(session: AsyncSession, message: str) -> None:
    """Take a message out of the search; `merge` takes its words out of the files."""
    await session.execute(text("DELETE FROM message_search WHERE message = :id"), {"id": message})


async def forget_conversation(session: AsyncSession, conversation: str) -> None:
    """Take all messages of a conversation out of the search, as `forget` does."""
    named = {"id": conversation}
    await session.execute(text("DELETE FROM message_search WHERE conversation = :id"), named)


async def merge(session: AsyncSession) -> None:
    """Only a merge takes deleted words out of the index of the search."""
    await full_text.merge(session, "message_search")


async def found(session: AsyncSession, words: Sequence[str]) -> dict[str, str]:
    """The conversations whose messages have all the words, each with the best place."""
    if not words:
        return {}
    rows = await session.execute(
        text(
            "SELECT conversation, snippet(message_search, 0, '', '', '…', 12) "
            "FROM message_search WHERE message_search MATCH :query ORDER BY rank DESC"
        ),
        {"query": " ".join(f'"{word}"*' for word in words)},
    )
    return {row[0]: row[1] for row in rows}
