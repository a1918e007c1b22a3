"""A peer that is to end: its devices go elsewhere, and what they have begun here is ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from peer.context import Shared

_LOOK_S = 0.05


async def drain(shared: Shared, deadline_s: float) -> None:
    """End all connections: once none has anything left to be done, or after so many seconds."""
    shared.draining = True
    for connection in tuple(shared.connections):
        connection.leave()
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await _left(shared)
    # Those that have nowhere else to go: Ray waits for every one of them.
    for connection in tuple(shared.connections):
        connection.end()


async def _left(shared: Shared) -> None:
    # What connections still do is not one event that could be waited for.
    while not all(each.left for each in shared.connections):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
