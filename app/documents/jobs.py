"""Running short blocking jobs, such as an embedding, off the event loop, and taking turns."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunJob(Protocol):
    """Runs a function elsewhere and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(function: Callable[[], T]) -> T:
    """Runs jobs on a worker thread where there is no engine."""
    return await asyncio.to_thread(function)


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, and no longer than so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Turns:
    """Turns, one at a time: of those who wait the one of the highest rank is next."""

    def __init__(self) -> None:
        self._now: asyncio.Future[None] | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[None]:
        """Wait for a turn, and give it up at the end."""
        mine = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-rank, next(self._arrival), mine))
        self._call_next()
        try:
            await mine
            yield
        finally:
            if self._now is mine:
                self._now = None
                # Who goes on at once is among those who wait by then.
                asyncio.get_running_loop().call_soon(self._call_next)

    def _call_next(self) -> None:
        while self._now is None and self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():  # who waits for it may have been cancelled
                self._now = called
                called.set_result(None)
