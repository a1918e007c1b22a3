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
from dragon.inference.logprobs import DetailMessage, Question
from dragon.link import batching, codec, detail_frames, frames
from dragon.link import control as messages
from dragon.link.handshake import check_hello
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
                hello = messages.decode(await self._socket.receive_text())
        except (TimeoutError, KeyError) as error:
            raise HandshakeError("the first frame of a link is a hello, as text") from error
        if not isinstance(hello, messages.Hello):
            raise HandshakeError("the first frame of a link is a hello")
        check_hello(self._shared.hello, hello)
        await self._socket.send_text(messages.encode(self._shared.hello))

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
                if isinstance(frame, bytes):
                    self._route(frame)
                else:
                    self._control(messages.decode(frame))

    async def refuse(self, error: DragonError) -> None:
        """Say what is wrong and hang up."""
        fault = messages.Fault(code=error.code, message=error.message[:1000])
        try:
            await self._socket.send_text(messages.encode(fault))
            await self._socket.close(1002, error.code)
        except (RuntimeError, WebSocketDisconnect):
            pass  # gone already

    def send(self, frame: str | bytes) -> None:
        """Queue a frame. A device that does not read is hung up on."""
        if self._outbound.full() or self._queued_bytes + len(frame) > _MAX_QUEUED_BYTES:
            self._hang_up("does not read")
            return
        self._outbound.put_nowait(frame)
        self._queued_bytes += len(frame)
        if self.pace.link.wants_ping(len(frame), time.monotonic()):
            self._send_ping(len(frame))

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
        self.send(
            messages.encode(
                messages.Fault(generation=generation, code=error.code, message=error.message)
            )
        )

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

    def _route(self, frame: bytes) -> None:
        if detail_frames.is_detail(frame):
            self._route_question(*detail_frames.decode(frame, self._shared.tokenizer.vocab_size))
            return
        generation, message = codec.decode(frame, self._shared.tokenizer.vocab_size)
        # A frame for an answer that has just ended here is nothing out of the ordinary.
        if isinstance(answer := self._answers.get(generation), CloudAnswer):
            answer.receive(message)

    def _route_question(self, generation: int, question: DetailMessage) -> None:
        if not isinstance(question, Question):
            raise FrameError("a device only asks about tokens")
        if isinstance(answer := self._answers.get(generation), CloudAnswer):
            answer.receive_question(question)

    def _control(self, control: messages.AnyControl) -> None:
        match control:
            case messages.Open():
                biased = tuple(token for token, _ in control.logit_bias)
                self._check_tokens((*control.conversation, *control.committed, *biased))
                self._open(control.generation, lambda: CloudAnswer(self._shared, self, control))
            case messages.Fetch():
                self._open(control.generation, lambda: CloudFetch(self._shared, self, control))
            case messages.ScoreAsked():
                biased = tuple(token for token, _ in control.logit_bias)
                self._check_tokens((*control.conversation, *control.text, *biased))
                self._open(control.generation, lambda: CloudScoring(self._shared, self, control))
            case messages.ScoreTaken():
                if isinstance(asked := self._answers.get(control.generation), CloudScoring):
                    asked.taken()
            case messages.Joined():
                self._check_tokens(control.tail)
                self._hand_on(control)
            case messages.CandidateSent():
                self._check_tokens(control.tokens)
                self._hand_on(control)
            case messages.Close():
                self.forget(control.generation)
            case messages.Ping():
                self.send(messages.encode(messages.Pong(number=control.number)))
            case messages.Probe():
                self.send(messages.encode(messages.Probe(payload="." * control.reply)))
            case messages.Pong():
                self.pace.link.pong(control.number, time.monotonic())
            case _:
                raise FrameError(f"a device does not send {control.kind}")

    def _hand_on(self, control: messages.SessionControl) -> None:
        if isinstance(answer := self._answers.get(control.generation), CloudAnswer):
            answer.receive(frames.session_message(control))

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

    def _check_tokens(self, tokens: tuple[int, ...]) -> None:
        if max(tokens, default=0) >= self._shared.tokenizer.vocab_size:
            raise FrameError("a token is outside the vocabulary")

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
        self.send(messages.encode(messages.Ping(number=number)))
