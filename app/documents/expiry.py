"""Deletes documents whose time has come."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.jobs import pause
from app.storage.tables import Document
from dragon.errors import NotFoundError

log = logging.getLogger(__name__)

# The clock may be set, and a disk may fail: it is looked again.
_LONGEST_S = 60.0


class Expiry:
    """Waits for the next document to expire, from `start` to `close`; `delete` takes its id."""

    def __init__(
        self, sessions: async_sessionmaker[AsyncSession], delete: Callable[[str], Awaitable[None]]
    ) -> None:
        self._sessions = sessions
        self._delete = delete
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def start(self) -> None:
        """Delete what has expired meanwhile, and go on."""
        self._task = asyncio.create_task(self._run(), name="expiry")

    async def close(self) -> None:
        """Delete no more; a deletion under way is not broken off."""
        self._closing = True
        self._changed.set()
        if self._task is not None:
            await self._task

    def changed(self) -> None:
        """A document that may be the next one has come."""
        self._changed.set()

    async def _run(self) -> None:
        while not self._closing:
            self._changed.clear()
            left = _LONGEST_S
            try:
                left = min(left, await self._expire())
            except (SQLAlchemyError, OSError):
                log.exception("expired documents could not be deleted; trying again")
            await pause(self._changed, left)

    async def _expire(self) -> float:
        """Delete what has expired; returns the seconds until the next one does."""
        expires = Document.expires_at
        async with self._sessions() as session:
            rows = await session.execute(
                select(Document.id, expires).where(expires.is_not(None)).order_by(expires)
            )
            coming = [(document, float(at or 0)) for document, at in rows]
        for document, at in coming:
            if self._closing:
                break
            if at > time.time():
                return at - time.time()
            with suppress(NotFoundError):  # deleted meanwhile
                await self._delete(document)
        return _LONGEST_S
