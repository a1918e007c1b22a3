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


class Lanes:
    """Turns for work on files: what is up to `limit` in size does not wait behind what is larger.

    Two small ones and a large one are worked on at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._small = asyncio.Semaphore(2)
        self._large = asyncio.Semaphore(1)

    def of(self, size: int) -> asyncio.Semaphore:
        """The lane of a file of this size."""
        return self._small if size <= self._limit else self._large


class Turns:
    """Turns, one at a time: of those who wait the one of the highest rank is next."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[Turn]:
        """Wait for a turn, and give it up at the end."""
        turn = Turn(self, rank)
        try:
            await turn.take()
            yield turn
        finally:
            turn.give_up()

    def before(self, rank: int) -> bool:
        """Whether one of a higher rank waits."""
        return bool(self._waiting) and -self._waiting[0][0] > rank

    async def take(self, rank: int) -> None:
        """Return once it is one's turn."""
        if not self._taken:
            self._taken = True
            return
        called = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-rank, next(self._arrival), called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.call_next()
            raise

    def call_next(self) -> None:
        """A turn is over."""
        while self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                return
        self._taken = False


class Turn:
    """A turn that somebody has, or waits for."""

    def __init__(self, turns: Turns, rank: int) -> None:
        self._turns = turns
        self._rank = rank
        self._held = False

    async def take(self) -> None:
        """Wait for it."""
        await self._turns.take(self._rank)
        self._held = True

    def give_up(self) -> None:
        """Let the next one have it."""
        if self._held:
            self._held = False
            self._turns.call_next()

    async def give_way(self) -> None:
        """Let those of a higher rank go first, if there are any."""
        if self._turns.before(self._rank):
            self.give_up()
            await self.take()
