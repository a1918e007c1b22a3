"""Waiting: shielded from cancellation, or for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T]) -> T:
    """Await `work` to its end; a cancellation takes effect only then."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # it may be cancelled again meanwhile
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
