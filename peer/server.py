"""The link server: one connection a device, many streams on each."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
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
from dragon.inference.fairness import CALLER
from dragon.link import batching, control, registry
from dragon.link.handshake import check_hello
from dragon.link.share import LoopShare
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target
from dragon.sampling.role import Role
from peer.context import Holder, Serving, Shared
from peer.fetch import CloudFetch
from peer.run import CloudRun
from peer.scoring import CloudScoring

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 5.0
_PING_S = 1.0
# A device pings twice a second: one silent for this long is gone, and its answers hold slots.
_SILENCE_S = 10.0
_MAX_QUEUED = 20_000
# What a device has not read yet: beyond the first its streams wait, beyond the second it goes.
_FULL_BYTES = 4 << 20
_MAX_QUEUED_BYTES = 16 << 20
_MAX_HOLDER_BYTES = 64 << 20
# How long a device may leave unread what it was sent, and a stream may last without progress.
_UNREAD_S = 20.0
_STANDSTILL_S = 600.0


@dataclass
class Stream:
    """What serves a stream, and since when it has made no progress."""

    serving: Serving
    task: asyncio.Task[None]
    sent: int = 0
    progress: int = -1
    since: float = 0.0

    def stands_still(self, now: float) -> bool:
        """Whether it has got on by nothing for too long: messages alone move no answer."""
        run = self.serving
        progress = len(run.session.committed) if isinstance(run, CloudRun) else self.sent
        if progress != self.progress:
            self.progress, self.since = progress, now
        return now - self.since > _STANDSTILL_S


async def serve(shared: Shared, socket: WebSocket, holder: Holder) -> None:
    """Serve an accepted connection until it ends."""
    connection = Connection(shared, socket, holder)
    try:
        await connection.greet()
        shared.metrics.paces.add(connection.pace)
        await connection.run()
    except (FrameError, HandshakeError) as error:
        log.warning("link refused: %s", error.message)
        await connection.refuse(error)
    except WebSocketDisconnect:
        pass
    finally:
        shared.metrics.paces.discard(connection.pace)
        connection.close()


class Connection:
    """One device's WebSocket: routes its frames to their streams, and sends what those produce."""

    def __init__(self, shared: Shared, socket: WebSocket, holder: Holder) -> None:
        self._shared = shared
        self._socket = socket
        self._holder = holder
        self._streams: dict[int, Stream] = {}
        self._outbound: asyncio.Queue[str | bytes] = asyncio.Queue(_MAX_QUEUED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_received = time.monotonic()
        self._hung_up = False
        self._queued_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._last_written = self._last_received
        self.pace = Pace(LinkMeter(), shared.decode)

    async def greet(self) -> None:
        """Exchange hellos; raises `HandshakeError` when the sides cannot work together."""
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
        """Say what is wrong and hang up."""
        fault = control.Fault(code=error.code, message=error.message[:1000])
        with suppress(RuntimeError, WebSocketDisconnect):  # gone already
            await self._socket.send_text(str(registry.encode(fault)))
            await self._socket.close(1002, error.code)

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; the bytes of its frame. A device that does not read is hung up on."""
        frame = registry.encode(message, stream)
        full = self._queued_bytes + len(frame) > _MAX_QUEUED_BYTES
        held = self._holder.queued_bytes + len(frame) > _MAX_HOLDER_BYTES
        if self._outbound.full() or full or held:
            self._hang_up("does not read")
            return 0
        self._outbound.put_nowait(frame)
        self._queue(len(frame))
        if self.pace.link.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))
        return len(frame)

    def close(self) -> None:
        """Free everything."""
        for stream in list(self._streams):
            self._end(stream)
        for task in self._tasks:
            task.cancel()
        self._queue(-self._queued_bytes)

    def _queue(self, size: int) -> None:
        """Bytes were queued or, less than 0, have left."""
        self._queued_bytes += size
        self._holder.queued_bytes += size
        if self._queued_bytes > _FULL_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine for as long as the connection lasts."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _hang_up(self, reason: str) -> None:
        if not self._hung_up:
            self._hung_up = True
            log.warning("hanging up on a device: it %s", reason)
            self._start(self._close_socket(1008, reason))

    async def _close_socket(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):  # gone already
            await self._socket.close(code, reason)

    def _decode(self, frame: registry.Frame) -> tuple[int, registry.Message]:
        return registry.decode(frame, Role.DEVICE, self._shared.tokenizer.vocab_size)

    def _route(self, stream: int, message: registry.Message) -> None:
        match message:
            case Draft() | Target() | Correction() | Join() | Candidate():
                if isinstance(run := self._serving(stream), CloudRun):
                    run.receive(message)
            case control.Open():
                make = partial(CloudRun, self._shared, self.pace, message)
                self._open(stream, make, lane=message.lane)
            case control.Fetch():
                self._open(stream, partial(CloudFetch, self._shared, message))
            case control.ScoreText():
                self._open(stream, partial(CloudScoring, self._shared, message))
            case control.ScoreTaken():
                if isinstance(scoring := self._serving(stream), CloudScoring):
                    scoring.taken()
            case control.Close():
                self._end(stream)
            case control.Ping():
                self.send(control.Pong(number=message.number))
            case control.Probe():
                self.send(control.Probe(payload="." * message.reply))
            case control.Pong():
                self.pace.link.pong(message.number, time.monotonic())
            case _:
                raise FrameError(f"a device does not send {registry.name_of(message)} here")

    def _serving(self, stream: int) -> Serving | None:
        """What serves a stream; nothing once it has ended here, which the device may not know."""
        found = self._streams.get(stream)
        return None if found is None else found.serving

    def _open(self, stream: int, make: Callable[[], Serving], *, lane: int = 0) -> None:
        if stream in self._streams:
            raise FrameError(f"stream {stream} is open already")
        most = self._shared.max_sessions
        # One device alone must not keep out all others.
        if self._shared.sessions >= most or self._holder.sessions >= max(1, most // 2):
            self._send_fault(stream, OverloadedError("the cloud peer is busy"))
            return
        try:
            serving = make()
        except InvalidRequestError as error:
            self._send_fault(stream, error)
            return
        task = self._start(self._serve(stream, serving, lane))
        self._streams[stream] = Stream(serving, task)
        self._shared.metrics.answers.inc()
        self._count(1)

    async def _serve(self, stream: int, serving: Serving, lane: int) -> None:
        """Send what a stream produces; a fault ends it, and the device goes on without."""
        CALLER.set(f"{CALLER.get()} {lane}")
        try:
            async with aclosing(serving.messages()) as produced:
                async for message in produced:
                    await self._room.wait()
                    self._shared.metrics.sent_bytes.inc(self.send(message, stream))
                    if (served := self._streams.get(stream)) is not None:
                        served.sent += 1
        except DragonError as error:
            if not isinstance(error, ContextLengthError):
                log.warning("a stream failed: %s", error.message)
            self._send_fault(stream, error)
        except Exception:
            log.exception("a stream failed")
            self._send_fault(stream, DragonError("the cloud peer failed"))
        self._end(stream)

    def _end(self, stream: int) -> None:
        """Free what a stream holds; a second call does nothing."""
        if (ended := self._streams.pop(stream, None)) is None:
            return
        self._count(-1)
        if ended.task is not asyncio.current_task():
            ended.task.cancel()

    def _count(self, opened: int) -> None:
        self._shared.sessions += opened
        self._holder.sessions += opened
        self._shared.metrics.sessions.set(self._shared.sessions)

    def _send_fault(self, stream: int, error: DragonError) -> None:
        self.send(control.Fault(code=error.code, message=error.message), stream)

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
            pass  # the reader sees the end, too

    async def _ping(self) -> None:
        for number in itertools.count():
            self._send_ping()
            await asyncio.sleep(_PING_S if number > 2 else _PING_S / 10)
            now = time.monotonic()
            if now - self._last_received > _SILENCE_S:
                self._hang_up("is silent")
            # A ping waits by now, if nothing else does.
            elif now - self._last_written > _UNREAD_S:
                self._hang_up("does not read")
            for stream, served in list(self._streams.items()):
                if served.stands_still(now):
                    self._send_fault(stream, DragonError("the answer does not get on"))
                    self._end(stream)

    def _send_ping(self, behind: int = 0) -> None:
        number = self.pace.link.ping(time.monotonic(), behind)
        self.send(control.Ping(number=number))
