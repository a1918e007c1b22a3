"""Running short blocking jobs, such as an embedding, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunJob(Protocol):
    """Runs a function elsewhere and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(function: Callable[[], T]) -> T:
    """Runs jobs on a worker thread where there is no engine."""
    return await asyncio.to_thread(function)


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
