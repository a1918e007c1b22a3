"""A hostile peer: a real WebSocket, the protocol's own session, and chosen lies.

It follows the protocol where that helps it: its session is the cloud's, and only the
distributions that it drafts from are made up. Everything it receives is recorded.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.link import batching, control, registry
from dragon.protocol.messages import Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.session import Session
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness.background_loop import background_loop
from harness.faults.disturbances import DISTURBANCES, FLOODS, Asked, Behaviour, huge

_FLAT = 4096  # tokens of a flat distribution
_HORIZON = 1024
_PULSE_S = 0.3
_DRIP_S = 1.0
_LATE_S = 4.0
_DRAFTING = frozenset(
    {
        Behaviour.FLAT,
        Behaviour.STEER,
        Behaviour.REPLAY,
        Behaviour.SLOW,
        Behaviour.DRIP,
        Behaviour.HUGE,
        Behaviour.LATE,
    }
)


@dataclass
class HostilePeer:
    """`received` is what a device sent; `texts` are the answers as far as the peer knows them.

    `words` are what it puts into answers if it steers, from position `first` on and again every
    `every` positions, unless that is 0; `bait` is a passage that it claims to have found. Its
    greeting is the device's own with the changes in `greeting`; its `ready` has those in `claims`,
    which may be invalid.
    """

    tokenizer: Tokenizer
    behaviour: Behaviour
    words: str = ""
    first: int = 0
    every: int = 0
    bait: str = "Nothing in particular."
    greeting: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    port: int = 0
    received: list[registry.Message] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    _closed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, message: registry.Message) -> None:
        """Record a message."""
        with self._closed:
            self.received.append(message)
            self._closed.notify_all()

    def settled(self) -> None:
        """Wait until every answer it was asked for is closed, and with it all that was sent."""

        def over() -> bool:
            kinds = [type(message) for message in self.received]
            return kinds.count(control.Close) >= kinds.count(control.Open)

        with self._closed:
            if not self._closed.wait_for(over, _LATE_S * 10):
                raise RuntimeError("an answer was not closed")

    def texts(self) -> list[str]:
        """What it knows of answers: words it was sent, text that both sides hold, and drafts.

        In modes that send distributions, the likeliest token of each counts as known.
        """
        decode = self.tokenizer.decode
        found = [decode(session.committed) for session in self.sessions]
        drafts: list[int] = []
        likeliest: list[int] = []
        for message in self.received:
            match message:
                case Draft():
                    drafts.append(message.token)
                    wire = message.side.wire
                    likeliest.append(int(wire.ids[np.argmax(wire.weights)]))
                case control.Open() | control.ScoreText():
                    found += [decode(message.conversation), message.query]
                case _ if hasattr(message, "tokens"):
                    found.append(decode(message.tokens))
                case _ if hasattr(message, "tail"):
                    found.append(decode(message.tail))
        return [*found, decode(drafts), decode(likeliest)]

    def steered(self, position: int) -> int | None:
        """The token that it wants at a position, if any."""
        wanted, at = self.tokenizer.encode(self.words), position - self.first
        if self.every and at >= 0:
            at %= self.every
        return wanted[at] if 0 <= at < len(wanted) else None

    def clear(self) -> None:
        """Forget everything so far."""
        self.received.clear()
        self.sessions.clear()


@contextmanager
def hostile_peer(peer: HostilePeer) -> Iterator[HostilePeer]:
    """The peer, listening on loopback."""
    with background_loop() as loop:
        server = asyncio.run_coroutine_threadsafe(_listen(peer), loop).result()
        try:
            yield peer
        finally:
            asyncio.run_coroutine_threadsafe(_end(server), loop).result()


async def _listen(peer: HostilePeer) -> Server:
    async def handle(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await _Connection(peer, socket).run()

    server = await serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None)
    peer.port = next(iter(server.sockets)).getsockname()[1]
    return server


async def _end(server: Server) -> None:
    server.close()
    await server.wait_closed()


def _changed(frame: registry.Frame, changes: Mapping[str, Any]) -> str:
    return json.dumps(json.loads(frame) | changes)


@dataclass
class _Connection:
    peer: HostilePeer
    socket: ServerConnection
    sessions: dict[int, Session] = field(default_factory=dict)
    pulses: dict[int, list[asyncio.Task[None]]] = field(default_factory=dict)

    async def run(self) -> None:
        """Return the device's own hello, then take part in its answers."""
        hello = await self.socket.recv()
        await self.socket.send(_changed(hello, self.peer.greeting))
        try:
            async for data in self.socket:
                for frame in batching.split(data):
                    await self._take(*registry.decode(frame, Role.DEVICE, 1 << 20))
        finally:
            for task in [task for tasks in self.pulses.values() for task in tasks]:
                task.cancel()

    async def _take(self, stream: int, message: registry.Message) -> None:
        match message:
            case control.Ping():
                if self.peer.behaviour is not Behaviour.NO_PONG:
                    await self._send(control.Pong(number=message.number))
                return
            case control.Pong() | control.Probe():
                return
        self.peer.take(message)
        match message:
            case control.Open():
                await self._begin(stream, message)
            case control.Close():
                self.sessions.pop(stream, None)
                for pulse in self.pulses.pop(stream, ()):
                    pulse.cancel()
            case _ if (session := self.sessions.get(stream)) is not None:
                session.receive(message)  # type: ignore[arg-type]
                self._start(stream, self._draft(stream, session))

    async def _begin(self, stream: int, asked: control.Open) -> None:
        peer = self.peer
        limits = Limits(peer.tokenizer.end_ids, asked.max_tokens)
        session = session_of(
            Start(asked.mode, asked.sampling, limits, asked.catch_up, asked.schedule),
            Role.CLOUD,
            Pace(LinkMeter(), DecodeDelay()),
            joint=asked.joint,
            committed=asked.committed,
        )
        session.set_horizon(_HORIZON)
        session.window = 8
        ready = control.Ready(
            documents=(
                control.PublicDocument(id="1", title="A", text=peer.bait, score=1.0, weight=1.0),
            ),
            horizon=_HORIZON,
            log_h=LOG_H_LIMIT,
        )
        self.sessions[stream] = session
        peer.sessions.append(session)
        self._start(stream, self._misbehave(Asked(stream, session, ready)))

    def _start(self, stream: int, work: Coroutine[None, None, None]) -> None:
        """Run work for as long as the answer lasts."""
        self.pulses.setdefault(stream, []).append(asyncio.create_task(work))

    async def _misbehave(self, asked: Asked) -> None:
        behaviour, stream = self.peer.behaviour, asked.stream
        with suppress(ConnectionClosed):
            match behaviour:
                case Behaviour.NEVER:
                    return
                case Behaviour.FAULT:
                    await self._send(control.Fault(code="internal_error", message="no"), stream)
                    return
                case Behaviour.HANG_UP:
                    await self.socket.close()
                    return
                case Behaviour.LATE:
                    await asyncio.sleep(_LATE_S)
                case Behaviour.HUGE:
                    asked = replace(asked, ready=huge(asked.ready))
            ready = registry.encode(asked.ready, stream)
            await self.socket.send(_changed(ready, self.peer.claims))
            await self._draft(stream, asked.session)
            while (disturbing := DISTURBANCES.get(behaviour)) is not None:
                await asyncio.sleep(0 if behaviour in FLOODS else _PULSE_S)
                await self.socket.send(disturbing(asked))

    async def _draft(self, stream: int, session: Session) -> None:
        """Draft what the session wants, from made-up distributions."""
        behaviour = self.peer.behaviour
        if behaviour not in _DRAFTING:
            return
        with suppress(ConnectionClosed):
            while True:
                session.take_commits()
                for message in session.take_outbox():
                    await self._answer(stream, message)
                if behaviour is Behaviour.SLOW and session.queues.own:
                    return
                if (work := session.next_work()) is None:
                    return
                if behaviour is Behaviour.DRIP:
                    await asyncio.sleep(_DRIP_S)
                text = [*session.committed, *(draft.token for draft in session.queues.own)]
                session.complete([self._side(text)] * min(1, work.outputs), 1000)

    async def _answer(self, stream: int, message: SessionMessage) -> None:
        if self.peer.behaviour is Behaviour.SLOW and isinstance(message, Draft):
            message = replace(message, decode_us=3600 * 10**6)
        for _ in range(2 if self.peer.behaviour is Behaviour.REPLAY else 1):
            await self._send(message, stream)

    def _side(self, text: Sequence[int]) -> Side:
        steered = self.peer.steered(len(text))
        if self.peer.behaviour is Behaviour.STEER and steered is not None:
            wire = WireDistribution.of([steered], [SCALE])
        else:
            ids = np.arange(5, 5 + min(_FLAT, self.peer.tokenizer.vocab_size - 5))
            wire = WireDistribution.of(ids, np.full(len(ids), SCALE // len(ids)))
        return Side(wire, LOG_H_LIMIT)

    async def _send(self, message: registry.Message, stream: int = registry.LINK) -> None:
        await self.socket.send(registry.encode(message, stream))
