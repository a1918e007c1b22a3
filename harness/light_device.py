"""A device without a model: its answers are the cloud's drafts. Many fit into one process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from app.peer_link.connection import PING_S
from dragon.link import batching, control, registry
from dragon.protocol.messages import Correction, Draft
from dragon.protocol.state import CommittedText
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.role import Role
from harness import two_sided
from harness.raw_link import hello, tokenizer
from harness.services import KEY

_VOCABULARY = tokenizer().vocab_size


@cache
def _texts() -> list[str]:
    """The questions to ask: public ones of the two-sided benchmark."""
    return [each.text for each in two_sided.read(two_sided.QUESTIONS) if each.side == "public"]


@dataclass
class LightAnswer:
    """An answer of at most `tokens` tokens: its text, and when each token came.

    `replied` is when the peer accepted it, with its passages, or `refused` it. Times are those of
    `time.perf_counter`, in seconds.
    """

    tokens: int
    asked: float
    refused: control.Fault | None = None
    replied: float | None = None
    came: list[float] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    text: list[int] = field(default_factory=list)
    checks: CommittedText = field(init=False)

    def __post_init__(self) -> None:
        self.checks = CommittedText(self.text)

    @property
    def token_s(self) -> float:
        """Seconds per token, from the first to the last."""
        return (self.came[-1] - self.came[0]) / (len(self.came) - 1)


class LightDevice:
    """A device on one connection, which pings as a real one does."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._answers: dict[int, LightAnswer] = {}
        self._streams = itertools.count(1)

    async def ask(self, tokens: int) -> LightAnswer:
        """Begin an answer, with the next seed."""
        stream = next(self._streams)
        text = _texts()[stream % len(_texts())]
        answer = self._answers[stream] = LightAnswer(tokens, time.perf_counter())
        asked = control.Open(
            conversation=tuple(tokenizer().encode(text)),
            raw=True,
            query=text,
            judged=False,
            mode=Mode.ONEWAY,
            sampling=Sampling(temperature=1.0, seed=stream),
            max_tokens=tokens,
            top_k=2,
            catch_up=False,
        )
        await self._socket.send(registry.encode(asked, stream))
        return answer

    async def written(self, tokens: int) -> LightAnswer:
        """A finished answer."""
        answer = await self.ask(tokens)
        await answer.over.wait()
        return answer

    async def read(self) -> None:
        """Handle messages until the connection ends, which ends all answers."""
        with suppress(ConnectionClosed):
            async for message in self._socket:
                now = time.perf_counter()
                for frame in batching.split(message):
                    await self._take(frame, now)
        for stream, answer in tuple(self._answers.items()):
            self._end(stream, answer)

    async def lost(self) -> None:
        """Wait until the connection has ended."""
        await self._socket.wait_closed()

    async def ping(self) -> None:
        """Ping as often as a real device does."""
        for number in itertools.count():
            await self._socket.send(registry.encode(control.Ping(number=number)))
            await asyncio.sleep(PING_S)

    async def _take(self, frame: registry.Frame, now: float) -> None:
        stream, message = registry.decode(frame, Role.CLOUD, _VOCABULARY)
        answer = self._answers.get(stream)
        match message:
            case control.Ping():
                await self._socket.send(registry.encode(control.Pong(number=message.number)))
            case control.Ready() if answer is not None:
                answer.replied = now
            case control.Fault() if answer is not None:
                answer.refused, answer.replied = message, now
                self._end(stream, answer)
            case Draft() if answer is not None and message.position == len(answer.text):
                answer.checks.add(message.token)
                answer.came.append(now)
                length = len(answer.text)
                if length == answer.tokens:
                    await self._socket.send(registry.encode(control.Close(reason="done"), stream))
                    self._end(stream, answer)
                else:
                    stands = Correction(0, length, answer.checks.checksum(length), 0, ())
                    await self._socket.send(registry.encode(stands, stream))

    def _end(self, stream: int, answer: LightAnswer) -> None:
        del self._answers[stream]
        answer.over.set()


@asynccontextmanager
async def light_device(port: int, key: str = KEY) -> AsyncIterator[LightDevice]:
    """A light device, connected to a peer and greeted."""
    async with connect(
        f"ws://127.0.0.1:{port}/v1/link",
        additional_headers={"Authorization": f"Bearer {key}"},
        compression=None,
        ping_interval=None,
        open_timeout=60,
        close_timeout=1,
        proxy=None,
    ) as socket:
        await socket.send(hello())
        await socket.recv()
        device = LightDevice(socket)
        tasks = [asyncio.create_task(work) for work in (device.read(), device.ping())]
        try:
            yield device
        finally:
            for task in tasks:
                task.cancel()
