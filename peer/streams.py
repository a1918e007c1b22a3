"""The streams of one connection: opened within the key's limits, served, and ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from dragon.errors import (
    ContextLengthError,
    DragonError,
    FrameError,
    InvalidRequestError,
)
from dragon.inference.fairness import CALLER, HOUSEHOLD
from dragon.link import control, registry
from peer.context import Holder, Shared
from peer.serving import CloudRun, Serving

log = logging.getLogger(__name__)

_STANDSTILL_S = 600.0


class Sending(Protocol):
    """Queues a message of a stream; returns its frame's bytes."""

    def __call__(self, message: registry.Message, stream: int) -> int: ...


@dataclass
class Stream:
    """What serves a stream, when it was opened, and since when it has made no progress."""

    serving: Serving
    task: asyncio.Task[None]
    opened: float = field(default_factory=time.monotonic)
    sent: int = 0
    progress: int = -1
    since: float = 0.0

    def stands_still(self, now: float) -> bool:
        """Whether there was no progress for too long: for an answer, messages alone are none."""
        run = self.serving
        progress = len(run.session.committed) if isinstance(run, CloudRun) else self.sent
        if progress != self.progress:
            self.progress, self.since = progress, now
        return now - self.since > _STANDSTILL_S


class Streams:
    """Streams by id. `room` waits until the device has read enough of what it was sent."""

    def __init__(
        self, shared: Shared, holder: Holder, send: Sending, room: Callable[[], Awaitable[object]]
    ) -> None:
        self._shared = shared
        self._holder = holder
        self._send = send
        self._room = room
        self._open: dict[int, Stream] = {}

    def __len__(self) -> int:
        """The number of open streams."""
        return len(self._open)

    def find(self, stream: int) -> Serving | None:
        """What serves a stream; None once it has ended here, which the device may not know yet."""
        found = self._open.get(stream)
        return None if found is None else found.serving

    def open(self, stream: int, make: Callable[[], Serving], *, lane: int = 0) -> None:
        """Serve a new stream, or report why not. Raises `FrameError` if it is already open."""
        if stream in self._open:
            raise FrameError(f"stream {stream} is open already")
        try:
            self._shared.admit(self._holder)
            serving = make()
        except DragonError as error:
            if not isinstance(error, InvalidRequestError):
                self._shared.metrics.refused(self._holder.name)
            self.fail(stream, error)
            return
        task = asyncio.create_task(self._serve(stream, serving, lane))
        self._open[stream] = Stream(serving, task)
        self._shared.began(self._holder)

    def end(self, stream: int) -> None:
        """Free what a stream holds; a second call does nothing."""
        if (ended := self._open.pop(stream, None)) is None:
            return
        lasted = time.monotonic() - ended.opened
        self._shared.ended(self._holder, ended.serving.tokens, lasted)
        if ended.task is not asyncio.current_task():
            ended.task.cancel()

    def end_all(self) -> None:
        """End every stream."""
        for stream in list(self._open):
            self.end(stream)

    def end_those_that_stand_still(self) -> None:
        """End streams that make no progress."""
        now = time.monotonic()
        for stream, served in list(self._open.items()):
            if served.stands_still(now):
                self.fail(stream, DragonError("the answer makes no progress"))
                self.end(stream)

    def fail(self, stream: int, error: DragonError) -> None:
        """Tell the device that it must continue without, and when to retry if that is known."""
        self._send(control.Fault.of(error), stream)

    async def _serve(self, stream: int, serving: Serving, lane: int) -> None:
        """Send what a stream produces; an error ends it, and the device continues without."""
        HOUSEHOLD.set(self._holder.household)
        CALLER.set(str(lane))
        try:
            async with aclosing(serving.messages()) as produced:
                async for message in produced:
                    await self._room()
                    self._shared.metrics.sent_bytes.inc(self._send(message, stream))
                    if (served := self._open.get(stream)) is not None:
                        served.sent += 1
        except DragonError as error:
            if not isinstance(error, ContextLengthError):
                log.warning("a stream failed: %s", error.message)
            self.fail(stream, error)
        except Exception:
            log.exception("a stream failed")
            self.fail(stream, DragonError("the cloud peer failed"))
        self.end(stream)
