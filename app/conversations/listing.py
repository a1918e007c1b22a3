"""The list of conversations, and the search of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage import message_search
from app.storage.tables import Conversation

_WORD = re.compile(r"\w+")
_insertion: ColumnElement[int] = literal_column("conversations.rowid")


@dataclass(frozen=True)
class Listed:
    """A conversation in the list; `found` is the snippet that a search found, else None."""

    conversation: Conversation
    found: str | None = None


@dataclass(frozen=True)
class ConversationList:
    """Lists conversations."""

    sessions: async_sessionmaker[AsyncSession]

    async def list(
        self,
        search: str,
        limit: int,
        before: int | None = None,
        after: str = "",
        project: str | None = None,
        *,
        archived: bool = False,
    ) -> Sequence[Listed]:
        """The latest first, without pinned ones; only those of a `project`, if one is named.

        With `search`, all whose title or text has a word beginning so. `before` is a time in Unix
        seconds: only those last changed earlier. With `after`, the id of one changed at that very
        time, also those of the same time that follow it in this order.
        """
        query = _latest(project)
        if before is not None:
            earlier = Conversation.updated_at < before
            # If that one is gone, its place is unknown: rather list the same second again.
            last = select(_insertion).where(Conversation.id == after).scalar_subquery()
            tied = (Conversation.updated_at == before) & (_insertion < func.coalesce(last, 1 << 62))
            query = query.where(earlier | tied if after else earlier)
        words = _WORD.findall(search)
        async with self.sessions() as session:
            found = await message_search.found(session, words)
            if words:
                title = Conversation.title.icontains(search.strip(), autoescape=True)
                query = query.where(title | Conversation.id.in_(found))
            else:
                query = query.where(Conversation.archived.is_(archived), ~Conversation.pinned)
            rows = await session.scalars(query.limit(limit))
            return [Listed(row, found.get(row.id)) for row in rows]

    async def pinned(self, project: str | None = None) -> Sequence[Listed]:
        """The pinned ones, the latest first."""
        async with self.sessions() as session:
            rows = await session.scalars(_latest(project).where(Conversation.pinned))
            return [Listed(row) for row in rows]


def _latest(project: str | None) -> Select[Conversation]:
    query = select(Conversation).order_by(Conversation.updated_at.desc(), _insertion.desc())
    return query if project is None else query.where(Conversation.project == project)
