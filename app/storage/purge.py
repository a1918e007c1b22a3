"""Removes deleted text from the database's files."""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage import full_text
from app.storage.database import empty_log

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
        """Purge what is deleted, as far as no reader blocks it."""
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
