"""Something a device asked for that is no answer: it runs, sends, and is forgotten."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dragon.errors import DragonError

if TYPE_CHECKING:
    from peer.link import Connection, LinkServer

log = logging.getLogger(__name__)


class CloudTask(ABC):
    """Counts as a session while it runs; closing it ends it at once."""

    def __init__(self, server: LinkServer, connection: Connection, number: int) -> None:
        self._server = server
        self._connection = connection
        self._number = number
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; at the end the connection forgets it."""
        self._task = self._connection.start(self._guarded())

    def close(self) -> None:
        """Send no more."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    @abstractmethod
    async def _run(self) -> None:
        """Do what was asked for; raises `DragonError` where that cannot be done."""

    def _send(self, frame: str | bytes) -> None:
        self._server.metrics.sent_bytes.inc(len(frame))
        self._connection.send(frame)

    async def _guarded(self) -> None:
        try:
            await self._run()
        except DragonError as error:
            self._connection.fail(self._number, error)
        except Exception:
            log.exception("what a device asked for could not be done")
            self._connection.fail(self._number, DragonError("the cloud peer failed"))
        else:
            self._connection.forget(self._number)
