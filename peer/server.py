"""The link server: one connection per device, many streams on each."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial

from starlette.websockets import WebSocket, WebSocketDisconnect

from dragon.errors import (
    ContextLengthError,
    DragonError,
    FrameError,
    HandshakeError,
    InvalidRequestError,
    OverloadedError,
)
from dragon.inference.estimates import LinkMeter, Pace
from dragon.inference.fairness import CALLER, HOUSEHOLD
from dragon.link import batching, control, registry
from dragon.link.control import check_hello
from dragon.link.share import LoopShare
from dragon.localizable import localizable
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target
from dragon.sampling.role import Role
from peer.context import Holder, Shared
from peer.serving import CloudFetch, CloudRun, CloudScoring, Serving

log = logging.getLogger(__name__)

Send = Callable[[registry.Message, int], int]
"""Queues a message of a stream; returns its frame's bytes."""

HELLO_TIMEOUT_S = 5.0
_PING_S = 1.0
# A device pings twice a second; one silent for this long is gone, and its answers hold slots.
_SILENCE_S = 10.0
_MAX_QUEUED = 20_000
# Bytes the device has not read yet: above the first its streams wait, above the others it is
# disconnected.
_FULL_BYTES = 4 << 20
_MAX_QUEUED_BYTES = 16 << 20
_MAX_HOLDER_BYTES = 64 << 20
_UNREAD_S = 20.0  # a device may leave sent data unread, at most
_LEAVING_S = 5.0  # a device that was asked to leave may still open answers
_ELSEWHERE_S = 1  # until a device refused by a peer that is ending asks again
_STANDSTILL_S = 600.0  # a stream may make no progress, at most
ENDING = localizable("link.ending", "the cloud peer is about to end")
REVOKED = localizable("link.revoked", "the key was revoked")


async def serve(shared: Shared, socket: WebSocket, holder: Holder) -> None:
    """Serve an accepted connection until it ends."""
    connection = DeviceConnection(shared, socket, holder)
    try:
        await connection.greet()
        shared.metrics.paces.add(connection.pace)
        shared.connections.add(connection)
        if shared.draining:
            connection.leave()
        await connection.run()
    except (FrameError, HandshakeError) as error:
        log.warning("link refused: %s", error.message)
        await connection.refuse(error)
    except WebSocketDisconnect:
        pass
    finally:
        shared.metrics.paces.discard(connection.pace)
        shared.connections.discard(connection)
        connection.close()


class DeviceConnection:
    """One device's WebSocket: routes its frames to their streams, and sends what those produce."""

    def __init__(self, shared: Shared, socket: WebSocket, holder: Holder) -> None:
        self._shared = shared
        self._socket = socket
        self.holder = holder
        self._outbound: asyncio.Queue[str | bytes] = asyncio.Queue(_MAX_QUEUED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_received = time.monotonic()
        self._hung_up = False
        self._queued_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._last_written = self._last_received
        self._streams = Streams(shared, holder, self.send, self._room.wait)
        self._asked_to_leave: float | None = None
        self._has_left = False
        self.pace = Pace(LinkMeter(), shared.decode)

    async def greet(self) -> None:
        """Exchange hellos; raises `HandshakeError` if the sides are incompatible."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                _, hello = self._decode(await self._socket.receive_text())
        except (TimeoutError, KeyError) as error:
            raise HandshakeError("the first frame of a link is a hello, as text") from error
        if not isinstance(hello, control.Hello):
            raise HandshakeError("the first frame of a link is a hello")
        check_hello(self._shared.hello, hello)
        await self._socket.send_text(str(registry.encode(self._shared.hello)))

    async def run(self) -> None:
        """Read until the device is gone; raises `FrameError` for what no device sends."""
        self._start(self._write())
        self._start(self._ping())
        share = LoopShare(time.perf_counter())
        while True:
            event = await self._socket.receive()
            self._last_received = time.monotonic()
            if event["type"] == "websocket.disconnect":
                return
            data = event.get("bytes")
            for frame in batching.split(event["text"] if data is None else data):
                began = time.perf_counter()
                self._route(*self._decode(frame))
                now = time.perf_counter()
                if (pause := share.took(now - began, now)) is not None:
                    await asyncio.sleep(pause)

    async def refuse(self, error: DragonError) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):  # already gone
            await self._socket.send_text(str(registry.encode(control.Fault.of(error))))
            await self._socket.close(1002, error.code)

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; return its frame's bytes. Disconnects a device that does not read."""
        frame = registry.encode(message, stream)
        if self._outbound.full() or self._queued_bytes + len(frame) > _MAX_QUEUED_BYTES:
            self._hang_up("does not read")
        elif self.holder.queued_bytes + len(frame) > _MAX_HOLDER_BYTES:
            # Of the devices with this key, the one that has left the most unread has to go.
            own = (each for each in self._shared.connections if each.holder is self.holder)
            there = (each for each in own if not each._hung_up)
            max((self, *there), key=lambda each: each._queued_bytes)._hang_up("does not read")
        if self._hung_up:
            return 0
        self._outbound.put_nowait(frame)
        self._queue(len(frame))
        if self.pace.link.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))
        return len(frame)

    def leave(self) -> None:
        self._asked_to_leave = time.monotonic()
        self.send(control.Draining())

    @property
    def left(self) -> bool:
        """Whether the device is done with this peer."""
        return self._takes_nothing and not len(self._streams)

    @property
    def _takes_nothing(self) -> bool:
        """Whether the device opens no more answers here, or may not."""
        asked = self._asked_to_leave
        return self._has_left or (asked is not None and time.monotonic() - asked > _LEAVING_S)

    def end(self, error: DragonError) -> None:
        """End all streams, tell the device why, and hang up."""
        self._has_left = True
        self._streams.end_all()
        self._start(self.refuse(error))

    def close(self) -> None:
        self._streams.end_all()
        for task in self._tasks:
            task.cancel()
        self._queue(-self._queued_bytes)

    def _queue(self, size: int) -> None:
        """Count bytes that were queued or, if negative, have been sent."""
        self._queued_bytes += size
        self.holder.queued_bytes += size
        if self._queued_bytes > _FULL_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine for as long as the connection lasts."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hang_up(self, reason: str) -> None:
        if not self._hung_up:
            self._hung_up = True
            log.warning("hanging up on a device: it %s", reason)
            while not self._outbound.empty():  # it may take a while to go
                self._queue(-len(self._outbound.get_nowait()))
            self._start(self._close_socket(1008, reason))

    async def _close_socket(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):  # already gone
            await self._socket.close(code, reason)

    def _decode(self, frame: registry.Frame) -> tuple[int, registry.Message]:
        return registry.decode(frame, Role.DEVICE, self._shared.tokenizer.vocab_size)

    def _route(self, stream: int, message: registry.Message) -> None:
        match message:
            case Draft() | Target() | Correction() | Join() | Candidate():
                if isinstance(run := self._streams.find(stream), CloudRun):
                    run.receive(message)
            case control.Open() | control.Fetch() | control.ScoreText() if self._takes_nothing:
                self._streams.fail(stream, OverloadedError(ENDING, retry_s=_ELSEWHERE_S))
            case control.Open():
                make = partial(CloudRun, self._shared, self.pace, message)
                self._streams.open(stream, make, lane=message.lane)
            case control.Fetch():
                self._streams.open(stream, partial(CloudFetch, self._shared, message))
            case control.ScoreText():
                self._streams.open(stream, partial(CloudScoring, self._shared, message))
            case control.ScoreTaken():
                if isinstance(scoring := self._streams.find(stream), CloudScoring):
                    scoring.taken()
            case control.Close():
                self._streams.end(stream)
            case control.Draining():
                self._has_left = True
            case control.Ping():
                self.send(control.Pong(number=message.number, load=self._shared.load))
            case control.Probe():
                self.send(control.Probe(payload="." * message.reply))
            case control.Pong():
                self.pace.link.pong(message.number, time.monotonic())
            case _:
                raise FrameError(f"a device does not send {registry.name_of(message)} here")

    async def _write(self) -> None:
        try:
            while True:
                taken = batching.take(await self._outbound.get(), self._outbound)
                for message in batching.messages(taken):
                    if isinstance(message, bytes):
                        await self._socket.send_bytes(message)
                    else:
                        await self._socket.send_text(message)
                self._queue(-sum(map(len, taken)))
                self._last_written = time.monotonic()
        except (RuntimeError, WebSocketDisconnect):
            pass  # the reader notices the end, too

    async def _ping(self) -> None:
        for number in itertools.count():
            self._send_ping()
            # Jittered: after a stall the timers of all connections would fire together.
            rest = random.uniform(0.75, 1.25) * _PING_S
            await asyncio.sleep(rest if number > 2 else rest / 10)
            now = time.monotonic()
            if now - self._last_received > _SILENCE_S:
                self._hang_up("is silent")
            # A ping is queued by now, if nothing else is.
            elif now - self._last_written > _UNREAD_S:
                self._hang_up("does not read")
            self._streams.end_those_that_stand_still()

    def _send_ping(self, behind: int = 0) -> None:
        number = self.pace.link.ping(time.monotonic(), behind)
        self.send(control.Ping(number=number))


@dataclass
class Stream:
    """An open stream: what serves it, since when, and since when it has made no progress."""

    serving: Serving
    task: asyncio.Task[None]
    opened: float = field(default_factory=time.monotonic)
    sent: int = 0
    progress: int = -1
    since: float = 0.0

    def stands_still(self, now: float) -> bool:
        """Whether it made no progress for too long; messages alone are none for an answer."""
        run = self.serving
        progress = len(run.session.committed) if isinstance(run, CloudRun) else self.sent
        if progress != self.progress:
            self.progress, self.since = progress, now
        return now - self.since > _STANDSTILL_S


class Streams:
    """The streams of a connection by id; `room` waits until the device has read enough."""

    def __init__(
        self, shared: Shared, holder: Holder, send: Send, room: Callable[[], Awaitable[object]]
    ) -> None:
        self._shared = shared
        self._holder = holder
        self._send = send
        self._room = room
        self._open: dict[int, Stream] = {}

    def __len__(self) -> int:
        return len(self._open)

    def find(self, stream: int) -> Serving | None:
        """What serves a stream; None once it has ended here, which the device may not know yet."""
        found = self._open.get(stream)
        return None if found is None else found.serving

    def open(self, stream: int, make: Callable[[], Serving], *, lane: int = 0) -> None:
        """Serve a new stream, or report why not. Raises `FrameError` if it is already open."""
        if stream in self._open:
            raise FrameError(f"stream {stream} is open already")
        try:
            self._shared.admit(self._holder)
            serving = make()
        except DragonError as error:
            if not isinstance(error, InvalidRequestError):
                self._shared.refused(self._holder)
            self.fail(stream, error)
            return
        task = asyncio.create_task(self._serve(stream, serving, lane))
        self._open[stream] = Stream(serving, task)
        self._shared.began(self._holder)

    def end(self, stream: int) -> None:
        """Free what a stream holds; a second call does nothing."""
        if (ended := self._open.pop(stream, None)) is None:
            return
        lasted = time.monotonic() - ended.opened
        self._shared.ended(self._holder, ended.serving.tokens, lasted)
        if ended.task is not asyncio.current_task():
            ended.task.cancel()

    def end_all(self) -> None:
        for stream in list(self._open):
            self.end(stream)

    def end_those_that_stand_still(self) -> None:
        now = time.monotonic()
        for stream, served in list(self._open.items()):
            if served.stands_still(now):
                self.fail(stream, DragonError("the answer makes no progress"))
                self.end(stream)

    def fail(self, stream: int, error: DragonError) -> None:
        """Tell the device that it must continue without, and when to retry if that is known."""
        self._send(control.Fault.of(error), stream)

    async def _serve(self, stream: int, serving: Serving, lane: int) -> None:
        """Send what a stream produces; an error ends it, and the device continues without."""
        HOUSEHOLD.set(self._holder.household)
        CALLER.set(str(lane))
        try:
            async with aclosing(serving.messages()) as produced:
                async for message in produced:
                    await self._room()
                    self._shared.metrics.sent_bytes.inc(self._send(message, stream))
                    if (served := self._open.get(stream)) is not None:
                        served.sent += 1
        except DragonError as error:
            if not isinstance(error, ContextLengthError):
                log.warning("a stream failed: %s", error.message)
            self.fail(stream, error)
        except Exception:
            log.exception("a stream failed")
            self.fail(stream, DragonError("the cloud peer failed"))
        self.end(stream)
