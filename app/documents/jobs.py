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
        self._taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Wait for a turn, and give it up at the end.

        What it yields lets those of a higher rank go first, if there are any.
        """
        held = False

        async def give_way() -> None:
            nonlocal held
            if self._waiting and -self._waiting[0][0] > rank:
                held = False
                self._call_next()
                await self._take(rank)
                held = True

        await self._take(rank)
        held = True
        try:
            yield give_way
        finally:
            if held:
                self._call_next()

    async def _take(self, rank: int) -> None:
        if not self._taken:
            self._taken = True
            return
        called = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-rank, next(self._arrival), called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._call_next()
            raise

    def _call_next(self) -> None:
        while self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                return
        self._taken = False
