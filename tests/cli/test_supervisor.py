"""The gate between `dragon up` and a service: whose turn it is, and who takes over."""

from __future__ import annotations

import asyncio
import socket

import pytest

from cli.supervisor import FAILED, GO, LOADED, SWITCH, Gate
from dragon.errors import ConfigurationError


def pair(leave: asyncio.Event | None = None) -> tuple[socket.socket, Gate]:
    """The end of `dragon up`, and that of a service."""
    ours, theirs = socket.socketpair()
    return ours, Gate(theirs.detach(), (leave or asyncio.Event()).set)


async def test_a_service_serves_when_it_is_its_turn() -> None:
    up, gate = pair()
    waiting = asyncio.create_task(asyncio.to_thread(gate.turn))
    assert await asyncio.to_thread(up.recv, 8) == LOADED
    assert not waiting.done()
    up.send(GO)
    await waiting
    assert not gate.leaving


async def test_one_that_is_no_longer_wanted_does_not_serve() -> None:
    up, gate = pair()
    up.close()
    with pytest.raises(ConfigurationError):
        gate.turn()


async def test_a_service_leaves_once_the_next_has_loaded() -> None:
    left = asyncio.Event()
    up, gate = pair(left)
    up.send(GO)
    gate.turn()
    gate.switch()
    gate.switch()  # another was chosen meanwhile
    assert gate.loading
    assert up.recv(8) == LOADED + 2 * SWITCH
    up.send(GO)
    await left.wait()
    assert gate.leaving
    assert gate.loading  # until the next one answers


async def test_a_service_stays_where_the_next_does_not_load() -> None:
    left = asyncio.Event()
    up, gate = pair(left)
    up.send(GO)
    gate.turn()
    gate.switch()
    up.send(FAILED)
    async with asyncio.timeout(60):
        while gate.loading:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0)
    assert not left.is_set()
    assert not gate.leaving
