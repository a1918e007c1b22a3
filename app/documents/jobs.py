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
