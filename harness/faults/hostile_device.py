"""A hostile device: real sockets, and a valid key.

It misbehaves, or stays connected, until it is told to stop.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from enum import StrEnum
from itertools import chain, count

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from dragon.link import batching, control, registry
from dragon.protocol.messages import MAX_TOKENS, Candidate, Correction, Draft, Join, Target
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import raw_link
from harness.faults.disturbances import full_bundle
from harness.faults.fuzz import Fuzzer

_OFTEN = 50  # frames, and connections
_REFUSED = (WebSocketException, OSError, TimeoutError)


class Behaviour(StrEnum):
    """What a device does. It has asked for an answer first, unless stated otherwise."""

    # Is not admitted.
    WRONG_KEYS = "wrong keys"  # tries wrong keys
    HALF_REQUESTS = "half requests"  # sends halves of upgrade requests
    MUTE = "mute"  # connects often, and sends nothing
    NO_HELLO = "no hello"  # asks before it has greeted
    OTHER_VERSION = "other version"  # has another release
    # Sends what is no message of a device.
    GARBAGE = "garbage"  # bytes that are no frame
    HALF_FRAME = "half frame"  # the first half of a WebSocket frame
    OVERSIZE = "oversize"  # a message larger than any may be
    DEEP = "deep"  # endlessly nested JSON
    BUNDLE = "bundle"  # a bundle that lies about its lengths
    FUZZ = "fuzz"  # broken frames
    PEERS_OWN = "peer's own"  # messages that only a peer sends
    HELLOS = "hellos"  # greets again and again
    # Asks for what it may not have.
    ALL_ANSWERS = "all answers"  # opens as many answers as it can, and closes none
    SAME_STREAM = "same stream"  # opens an answer twice
    OPEN_CLOSE = "open close"  # opens answers and closes them at once
    TOO_LONG = "too long"  # a conversation too long for any context
    FOREIGN = "foreign"  # a token outside every vocabulary
    NO_JOIN = "no join"  # asks to join answers, and does not
    CONNECTIONS = "connections"  # opens connection after connection
    HANGS_UP = "hangs up"  # hangs up in mid-answer, again and again
    # Continues an answer in an invalid way.
    OLD = "old"  # joins with an old incarnation
    EPOCH = "epoch"  # drafts of an epoch to come
    CHECKSUM = "checksum"  # corrects another text
    GAP = "gap"  # corrects what is not drafted yet
    REPLAY = "replay"  # corrects the first token again and again
    TARGETS = "targets"  # sends targets that are not its to choose
    CANDIDATES = "candidates"  # offers whole answers
    STRANGER = "stranger"  # corrects answers that do not exist
    # Sends too much, or reads too little.
    FLOOD = "flood"  # bundles of tiny drafts, as fast as it can
    PINGS = "pings"  # pings, as fast as it can
    UNREAD = "unread"  # requests much data, and reads none of it


_SIDE = Side(WireDistribution.of([5], [SCALE]), 0)


def _draft(epoch: int = 0, incarnation: int = 0) -> registry.Frame:
    return registry.encode(Draft(incarnation, epoch, 0, 0, 0, 5, 1000, _SIDE), 1)


def _correction(position: int = 0, checksum: int = 0, stream: int = 1) -> registry.Frame:
    return registry.encode(Correction(0, position, checksum, 1000, (5,)), stream)


_SAME: Mapping[Behaviour, Callable[[], registry.Frame]] = {
    Behaviour.GARBAGE: lambda: os.urandom(1000),
    Behaviour.OVERSIZE: lambda: "x" * (control.MAX_CONTROL_BYTES + 1),
    Behaviour.DEEP: lambda: "[" * 500_000,
    Behaviour.BUNDLE: lambda: next(iter(batching.messages([b"\x01short", b"\x02short"]))),
    Behaviour.PEERS_OWN: lambda: registry.encode(
        control.Ready(documents=(), horizon=1, log_h=0), 1
    ),
    Behaviour.HELLOS: raw_link.hello,
    Behaviour.SAME_STREAM: lambda: raw_link.opening(1),
    Behaviour.FOREIGN: lambda: raw_link.opening(2, conversation=((1 << 31) - 1,)),
    Behaviour.OLD: lambda: registry.encode(Join(0, 0, (5, 6)), 1),
    Behaviour.EPOCH: lambda: _draft(epoch=7),
    Behaviour.CHECKSUM: lambda: _correction(checksum=1),
    Behaviour.GAP: lambda: _correction(position=300),
    Behaviour.REPLAY: _correction,
    Behaviour.TARGETS: lambda: registry.encode(Target(0, 0, 5, True, True, Role.DEVICE), 1),
    Behaviour.CANDIDATES: lambda: registry.encode(Candidate(0, (5, 6, 7), -1.0, 0), 1),
    Behaviour.STRANGER: lambda: _correction(stream=1000),
    Behaviour.FLOOD: lambda: full_bundle(_draft(incarnation=99)),
    Behaviour.PINGS: lambda: registry.encode(control.Ping(number=1)),
    Behaviour.UNREAD: lambda: registry.encode(control.Probe(reply=control.MAX_PROBE)),
}


_WITHOUT_END = frozenset({Behaviour.FLOOD, Behaviour.PINGS, Behaviour.UNREAD})


def _frames(behaviour: Behaviour) -> Iterator[registry.Frame]:
    """An endless stream of the frames a device sends once it has asked for an answer."""
    if behaviour in _SAME:
        return (_SAME[behaviour]() for _ in count())
    streams = count(2)
    match behaviour:
        case Behaviour.FUZZ:
            fuzzer = Fuzzer(Role.DEVICE, seed=1)
            return (fuzzer.frame() for _ in streams)
        case Behaviour.ALL_ANSWERS:
            return (raw_link.opening(n, max_tokens=MAX_TOKENS, top_k=32) for n in streams)
        case Behaviour.TOO_LONG:
            return (raw_link.opening(n, conversation=(7,) * 60_000) for n in streams)
        case Behaviour.NO_JOIN:
            return (raw_link.opening(n, joint=False, committed=(5, 6)) for n in streams)
        case Behaviour.OPEN_CLOSE:
            close = control.Close(reason="no")
            both = ((raw_link.opening(n), registry.encode(close, n)) for n in streams)
            return chain.from_iterable(both)
    raise ValueError(f"{behaviour} is no matter of frames")


class HostileDevice:
    """A device with a key, and its behaviour towards the peer at a port."""

    def __init__(self, port: int, key: str, behaviour: Behaviour) -> None:
        self._port = port
        self._key = key
        self._behaviour = behaviour
        self._sockets: list[socket.socket] = []
        self._begun = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        """Returns once it is well under way."""
        self._thread.start()
        self._begun.wait()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._sockets:
            with suppress(OSError):  # otherwise it could block in sending
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        try:
            match self._behaviour:
                case Behaviour.WRONG_KEYS:
                    self._connect(lambda number: raw_link.link(self._port, f"wrong-{number}"))
                case Behaviour.MUTE:
                    self._connect(lambda _: raw_link.link(self._port, self._key))
                case Behaviour.CONNECTIONS:
                    self._connect(lambda _: raw_link.greeted(self._port, self._key))
                case Behaviour.HALF_REQUESTS:
                    self._connect(lambda _: self._half_request())
                case _:
                    self._talk()
        finally:
            self._begun.set()

    def _connect(self, connection: Callable[[int], AbstractContextManager[object]]) -> None:
        """Hold many connections."""
        with ExitStack() as held:
            for number in range(_OFTEN):
                with suppress(*_REFUSED):
                    held.enter_context(connection(number))
            self._begun.set()
            self._over.wait()

    @contextmanager
    def _half_request(self) -> Iterator[None]:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.sendall(b"GET /v1/link HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: webso")
            yield

    def _talk(self) -> None:
        """Ask and send, reconnecting if that ended the connection."""
        for _ in range(_OFTEN):
            with suppress(*_REFUSED), raw_link.link(self._port, self._key) as connection:
                self._sockets.append(connection.socket)
                if self._over.is_set():
                    return
                self._send_all(connection)
                self._begun.set()
                self._over.wait()

    def _send_all(self, connection: ClientConnection) -> None:
        match self._behaviour:
            case Behaviour.NO_HELLO:
                connection.send(raw_link.opening(1))
                return
            case Behaviour.OTHER_VERSION:
                connection.send(raw_link.hello(version=control.PROTOCOL_VERSION + 1))
                raw_link.next_control(connection)
                raw_link.next_control(connection)  # the peer hangs up
        connection.send(raw_link.hello())
        connection.send(raw_link.opening(1))
        match self._behaviour:
            case Behaviour.HALF_FRAME:
                connection.socket.sendall(b"\x81\xfe\x10\x00" + bytes(100))
            case Behaviour.HANGS_UP:
                connection.socket.shutdown(socket.SHUT_RDWR)
                connection.recv()
            case _:
                self._send_frames(connection)

    def _send_frames(self, connection: ClientConnection) -> None:
        for number, frame in enumerate(_frames(self._behaviour)):
            connection.send(frame)
            if number == _OFTEN:
                if self._behaviour not in _WITHOUT_END:
                    return
                self._begun.set()
