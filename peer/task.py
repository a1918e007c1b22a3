"""Something a device asked for that is no answer: it runs, sends, and is forgotten."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

from dragon.errors import DragonError
from dragon.link.registry import Message
from peer.context import Channel, Shared

log = logging.getLogger(__name__)


class CloudTask(ABC):
    """Counts as a session while it runs; closing it ends it at once."""

    def __init__(self, shared: Shared, channel: Channel, stream: int) -> None:
        self._shared = shared
        self._channel = channel
        self._stream = stream
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; at the end the connection forgets it."""
        self._task = self._channel.start(self._guarded())

    def close(self) -> None:
        """Send no more."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    @abstractmethod
    async def _run(self) -> None:
        """Do what was asked for; raises `DragonError` where that cannot be done."""

    def _send(self, message: Message) -> None:
        self._shared.metrics.sent_bytes.inc(self._channel.send(message, self._stream))

    async def _guarded(self) -> None:
        try:
            await self._run()
        except DragonError as error:
            self._channel.fail(self._stream, error)
        except Exception:
            log.exception("what a device asked for could not be done")
            self._channel.fail(self._stream, DragonError("the cloud peer failed"))
        else:
            self._channel.forget(self._stream)
