"""The link server: one connection a device, many answers on each."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine

from starlette.websockets import WebSocket, WebSocketDisconnect

from dragon.errors import (
    DragonError,
    FrameError,
    HandshakeError,
    InvalidRequestError,
    OverloadedError,
)
from dragon.inference.estimates import LinkMeter, Pace
from dragon.inference.logprobs import Question
from dragon.link import batching, control, registry
from dragon.link.handshake import check_hello
from dragon.protocol.messages import Candidate, Draft, Join, Target
from dragon.sampling.role import Role
from peer.context import Shared
from peer.fetch import CloudFetch
from peer.run import CloudAnswer
from peer.scoring import CloudScoring
from peer.task import CloudTask

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 5.0
_PING_S = 1.0
# A device pings twice a second: one silent for this long is gone, and its answers hold slots.
_SILENCE_S = 10.0
_MAX_QUEUED = 20_000
_MAX_QUEUED_BYTES = 256 << 20


async def serve(shared: Shared, socket: WebSocket) -> None:
    """Serve an accepted connection until it ends."""
    connection = Connection(shared, socket)
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
    """One device's WebSocket: reads frames, routes them to answers, writes what they say."""

    def __init__(self, shared: Shared, socket: WebSocket) -> None:
        self._shared = shared
        self._socket = socket
        self._answers: dict[int, CloudAnswer | CloudTask] = {}
        self._outbound: asyncio.Queue[str | bytes] = asyncio.Queue(_MAX_QUEUED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_heard = time.monotonic()
        self._hung_up = False
        self._queued_bytes = 0
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
        self.start(self._write())
        self.start(self._ping())
        while True:
            event = await self._socket.receive()
            self._last_heard = time.monotonic()
            if event["type"] == "websocket.disconnect":
                return
            data = event.get("bytes")
            for frame in batching.split(event["text"] if data is None else data):
                self._route(*self._decode(frame))

    async def refuse(self, error: DragonError) -> None:
        """Say what is wrong and hang up."""
        fault = control.Fault(code=error.code, message=error.message[:1000])
        try:
            await self._socket.send_text(str(registry.encode(fault)))
            await self._socket.close(1002, error.code)
        except (RuntimeError, WebSocketDisconnect):
            pass  # gone already

    def send(self, message: registry.Message, stream: int = registry.LINK) -> int:
        """Queue a message; the bytes of its frame. A device that does not read is hung up on."""
        frame = registry.encode(message, stream)
        if self._outbound.full() or self._queued_bytes + len(frame) > _MAX_QUEUED_BYTES:
            self._hang_up("does not read")
            return 0
        self._outbound.put_nowait(frame)
        self._queued_bytes += len(frame)
        if self.pace.link.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))
        return len(frame)

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine for as long as the connection lasts."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def forget(self, generation: int) -> None:
        """An answer is over: free what it holds."""
        answer = self._answers.pop(generation, None)
        if answer is not None:
            answer.close()
            self._shared.sessions -= 1
            self._shared.metrics.sessions.set(self._shared.sessions)

    def fail(self, generation: int, error: DragonError) -> None:
        """An answer cannot go on here; the device goes on without."""
        self.forget(generation)
        self.send(control.Fault(code=error.code, message=error.message), generation)

    def close(self) -> None:
        """Free everything."""
        for generation in list(self._answers):
            self.forget(generation)
        for task in self._tasks:
            task.cancel()

    def _hang_up(self, reason: str) -> None:
        if not self._hung_up:
            self._hung_up = True
            log.warning("hanging up on a device: it %s", reason)
            self.start(self._socket.close(1008, reason))

    def _decode(self, frame: registry.Frame) -> tuple[int, registry.Message]:
        return registry.decode(frame, Role.DEVICE, self._shared.tokenizer.vocab_size)

    def _route(self, stream: int, message: registry.Message) -> None:
        # A message for an answer that has just ended here is nothing out of the ordinary.
        match message:
            case Draft() | Target() | Join() | Candidate():
                if isinstance(answer := self._answers.get(stream), CloudAnswer):
                    answer.receive(message)
            case Question():
                if isinstance(answer := self._answers.get(stream), CloudAnswer):
                    answer.receive_question(message)
            case control.Open():
                self._open(stream, lambda: CloudAnswer(self._shared, self, stream, message))
            case control.Fetch():
                self._open(stream, lambda: CloudFetch(self._shared, self, stream, message))
            case control.ScoreText():
                self._open(stream, lambda: CloudScoring(self._shared, self, stream, message))
            case control.ScoreTaken():
                if isinstance(asked := self._answers.get(stream), CloudScoring):
                    asked.taken()
            case control.Close():
                self.forget(stream)
            case control.Ping():
                self.send(control.Pong(number=message.number))
            case control.Probe():
                self.send(control.Probe(payload="." * message.reply))
            case control.Pong():
                self.pace.link.pong(message.number, time.monotonic())
            case _:
                raise FrameError(f"a device does not send {registry.name_of(message)} here")

    def _open(self, generation: int, make: Callable[[], CloudAnswer | CloudTask]) -> None:
        if generation in self._answers:
            raise FrameError(f"generation {generation} is open already")
        shared = self._shared
        if shared.sessions >= shared.max_sessions:
            self.fail(generation, OverloadedError("the cloud peer is busy"))
            return
        try:
            answer = make()
        except InvalidRequestError as error:
            self.fail(generation, error)
            return
        self._answers[generation] = answer
        shared.sessions += 1
        shared.metrics.sessions.set(shared.sessions)
        shared.metrics.answers.inc()
        answer.start()

    async def _write(self) -> None:
        try:
            while True:
                taken = batching.take(await self._outbound.get(), self._outbound)
                for message in batching.messages(taken):
                    if isinstance(message, bytes):
                        await self._socket.send_bytes(message)
                    else:
                        await self._socket.send_text(message)
                self._queued_bytes -= sum(map(len, taken))
        except (RuntimeError, WebSocketDisconnect):
            pass  # the reader sees the end, too

    async def _ping(self) -> None:
        for number in itertools.count():
            self._send_ping()
            await asyncio.sleep(_PING_S if number > 2 else _PING_S / 10)
            if time.monotonic() - self._last_heard > _SILENCE_S:
                self._hang_up("is silent")

    def _send_ping(self, behind: int = 0) -> None:
        number = self.pace.link.ping(time.monotonic(), behind)
        self.send(control.Ping(number=number))
