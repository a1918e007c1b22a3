"""Draining: a peer that is shutting down sends its devices elsewhere and finishes their answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from peer.context import Shared

_LOOK_S = 0.05


async def drain(shared: Shared, deadline_s: float) -> None:
    """End all connections once their devices are done, or after `deadline_s`."""
    shared.draining = True
    for connection in tuple(shared.connections):
        connection.leave()
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            await _left(shared)
    # Those with nowhere else to go: Ray waits for every one of them.
    for connection in tuple(shared.connections):
        connection.end()


async def _left(shared: Shared) -> None:
    # There is no single event to wait for.
    while not all(each.left for each in shared.connections):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
