"""Whom the peer hangs up on if what devices with one key have not read fills their memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from starlette.websockets import WebSocket

from dragon.inference.estimates import DecodeDelay
from dragon.inference.fairness import Household
from dragon.link import control
from peer.context import Holder, Shared
from peer.server import _MAX_HOLDER_BYTES, DeviceConnection

PADDING = control.Probe(payload="." * control.MAX_PROBE)


@dataclass
class Deaf:
    """A socket from which nobody reads."""

    closed: list[str] = field(default_factory=list)

    async def close(self, _code: int, reason: str) -> None:
        self.closed.append(reason)


def shared() -> Shared:
    return cast(Shared, SimpleNamespace(decode=DecodeDelay(), connections=set()))


def connection(shared: Shared, holder: Holder) -> tuple[DeviceConnection, Deaf]:
    socket = Deaf()
    made = DeviceConnection(shared, cast(WebSocket, socket), holder)
    shared.connections.add(made)
    return made, socket


async def test_of_devices_with_one_key_the_one_that_reads_least_is_hung_up_on() -> None:
    both, holder = shared(), Holder(Household("household"))
    unread = [connection(both, holder) for _ in range(5)]
    size = unread[0][0].send(PADDING)
    fits = _MAX_HOLDER_BYTES // size - 1
    for number in range(fits):  # the first has most
        assert unread[number % 5][0].send(PADDING)
    reads, socket = connection(both, holder)
    while holder.queued_bytes + 40 < _MAX_HOLDER_BYTES:
        assert reads.send(control.Ping(number=1))
    assert reads.send(control.Ping(number=1))
    assert holder.queued_bytes < _MAX_HOLDER_BYTES - 10 * size  # free at once
    assert [made.send(PADDING) > 0 for made, _ in unread] == [False, True, True, True, True]
    for made in both.connections:
        for task in tuple(made._tasks):
            await task
    assert [each.closed for _, each in unread] == [["does not read"], [], [], [], []]
    assert socket.closed == []
