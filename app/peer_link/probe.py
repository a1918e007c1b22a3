"""Measures the link to the configured peer: round trip and bandwidth each way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

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
    """Exchange greetings with the peer.

    Raises `LinkError` if the peer cannot be reached, `HandshakeError` if it refuses.
    """
    with _connected(peer, key, hello):
        pass


def measure(peer: PeerAddress, key: str | None, hello: Hello) -> LinkFigures:
    """Greet the peer, ping it, and transfer dummy bytes both ways.

    Raises `LinkError` if the peer cannot be reached, `HandshakeError` if it refuses.
    """
    with _connected(peer, key, hello) as connection:
        rtt_s = min(_pinged(connection, number) for number in range(_PINGS))
        sending = min(_probed(connection, MAX_PROBE, 0) for _ in range(_PROBES))
        receiving = min(_probed(connection, 0, MAX_PROBE) for _ in range(_PROBES))
    return LinkFigures(rtt_s, _bandwidth(sending - rtt_s), _bandwidth(receiving - rtt_s))


@contextmanager
def _connected(peer: PeerAddress, key: str | None, hello: Hello) -> Iterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with connect(
            peer.url,
            ssl=peer.tls(),
            additional_headers=headers,
            compression=None,
            max_size=control.MAX_CONTROL_BYTES,
            proxy=None,
        ) as connection:
            connection.send(registry.encode(hello))
            check_hello(hello, _next(connection, Hello, lambda _: True))
            yield connection
    except InvalidStatus as error:
        raise HandshakeError(denied(error)) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise LinkError(f"no peer at {peer.url}: {error or 'no answer'}") from error


def _bandwidth(transfer_s: float) -> float | None:
    return MAX_PROBE / transfer_s if transfer_s > _MIN_TRANSFER_S else None


def _pinged(connection: ClientConnection, number: int) -> float:
    began = time.perf_counter()
    connection.send(registry.encode(Ping(number=number)))
    _next(connection, Pong, lambda pong: pong.number == number)
    return time.perf_counter() - began


def _probed(connection: ClientConnection, sent: int, received: int) -> float:
    probe = registry.encode(Probe(payload="." * sent, reply=received))
    began = time.perf_counter()
    connection.send(probe)
    _next(connection, Probe, lambda reply: len(reply.payload) == received)
    return time.perf_counter() - began


def _next(connection: ClientConnection, kind: type[M], wanted: Callable[[M], bool]) -> M:
    """The next wanted message of a kind; the peer's own pings go unanswered."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        left = max(0.0, deadline - time.monotonic())
        # No token crosses the link before an answer is opened.
        frame = str(connection.recv(left, decode=True))
        _, message = registry.decode(frame, Role.CLOUD, vocab_size=1)
        if isinstance(message, control.Fault):
            raise HandshakeError(message.reason)
        if isinstance(message, kind) and wanted(message):
            return message
        if not isinstance(message, Ping):
            raise FrameError(f"the peer answered with {registry.name_of(message)}")
