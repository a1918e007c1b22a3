"""Measures the link to the configured peer: round trip and bandwidth each way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from app.peer_link.status import denied
from dragon.errors import FrameError, HandshakeError, LinkError
from dragon.link import control, registry
from dragon.link.address import PeerAddress
from dragon.link.control import MAX_PROBE, Control, Hello, Ping, Pong, Probe, check_hello
from dragon.sampling.role import Role

_TIMEOUT_S = 30.0
_PINGS = 20
_PROBES = 3
# Less than this beyond a round trip is noise: the link is too fast to measure this way.
_MIN_TRANSFER_S = 0.001

M = TypeVar("M", bound=Control)


@dataclass(frozen=True)
class LinkFigures:
    """Round trip in seconds; bandwidths in bytes per second, None if too high to measure."""

    rtt_s: float
    sending: float | None
    receiving: float | None


def greet(peer: PeerAddress, key: str | None, hello: Hello) -> None:
    """Exchange greetings with the peer; not from a running event loop.

    Raises `LinkError` if the peer cannot be reached, `HandshakeError` if it refuses.
    """

    async def exchange() -> None:
        async with _connected(peer, key, hello):
            pass

    asyncio.run(exchange())


def measure(peer: PeerAddress, key: str | None, hello: Hello) -> LinkFigures:
    """Greet the peer, ping it, and transfer dummy bytes both ways; not from a running event loop.

    Raises `LinkError` if the peer cannot be reached, `HandshakeError` if it refuses.
    """
    return asyncio.run(_measured(peer, key, hello))


async def _measured(peer: PeerAddress, key: str | None, hello: Hello) -> LinkFigures:
    async with _connected(peer, key, hello) as connection:
        rtt_s = min([await _pinged(connection, number) for number in range(_PINGS)])
        sending = min([await _probed(connection, MAX_PROBE, 0) for _ in range(_PROBES)])
        receiving = min([await _probed(connection, 0, MAX_PROBE) for _ in range(_PROBES)])
    return LinkFigures(rtt_s, _bandwidth(sending - rtt_s), _bandwidth(receiving - rtt_s))


# `websockets.sync` reads and writes from two threads, and before Python 3.13 one TLS connection
# takes no two threads at once: a handshake in some thousands never ended.
@asynccontextmanager
async def _connected(
    peer: PeerAddress, key: str | None, hello: Hello
) -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with connect(
            peer.url,
            ssl=peer.tls(),
            additional_headers=headers,
            compression=None,
            max_size=control.MAX_CONTROL_BYTES,
            proxy=None,
        ) as connection:
            await connection.send(registry.encode(hello))
            check_hello(hello, await _next(connection, Hello, lambda _: True))
            yield connection
    except InvalidStatus as error:
        raise HandshakeError(denied(error)) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise LinkError(f"no peer at {peer.url}: {error or 'no answer'}") from error


def _bandwidth(transfer_s: float) -> float | None:
    return MAX_PROBE / transfer_s if transfer_s > _MIN_TRANSFER_S else None


async def _pinged(connection: ClientConnection, number: int) -> float:
    began = time.perf_counter()
    await connection.send(registry.encode(Ping(number=number)))
    await _next(connection, Pong, lambda pong: pong.number == number)
    return time.perf_counter() - began


async def _probed(connection: ClientConnection, sent: int, received: int) -> float:
    probe = registry.encode(Probe(payload="." * sent, reply=received))
    began = time.perf_counter()
    await connection.send(probe)
    await _next(connection, Probe, lambda reply: len(reply.payload) == received)
    return time.perf_counter() - began


async def _next(connection: ClientConnection, kind: type[M], wanted: Callable[[M], bool]) -> M:
    """The next wanted message of a kind; the peer's own pings go unanswered."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            # No token crosses the link before an answer is opened.
            frame = str(await connection.recv(decode=True))
            _, message = registry.decode(frame, Role.CLOUD, vocab_size=1)
            if isinstance(message, control.Fault):
                raise HandshakeError(message.reason)
            if isinstance(message, kind) and wanted(message):
                return message
            if not isinstance(message, Ping):
                raise FrameError(f"the peer answered with {registry.name_of(message)}")
