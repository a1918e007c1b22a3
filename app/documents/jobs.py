"""Running short blocking jobs, such as an embedding, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
