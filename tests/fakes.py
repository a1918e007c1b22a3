"""Small working stand-ins for parts that need models or a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from app.generation.accumulator import AnswerObserver, AnswerState, observing
from app.generation.cloud_view import Known, View
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from app.peer_link.status import PeerStatus
from dragon.errors import ContextLengthError
from dragon.inference.choice import DefaultSampling
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.sampling.params import Mode

SOURCE = Source("private", "file-1", "note.txt", "The key is under the mat.", 0.8, 1.0, 2, 0, 25)


class TrustingView:
    """A cloud that may see every message."""

    async def of(self, messages: Sequence[Message], *, trusted: bool) -> View:
        return View(tuple(messages), ())

    async def known(self, question: str, text: str) -> Known | None:
        return Known(True, ((0, len(text)),))


@dataclass
class FakeGeneration:
    """Writes `script` token by token, whatever is asked, and keeps count of what became of it."""

    tokenizer: Tokenizer
    script: str = "The key is under the mat."
    model_name: str = "dragon-7m"
    context_length: int = 256
    top_k: int = 2
    quotes: bool = True
    quotes_alone: bool = True
    default_sampling: DefaultSampling = field(
        default_factory=lambda: DefaultSampling(temperature=0.0)
    )
    ready: bool = True
    cloud_view: TrustingView = field(default_factory=TrustingView)
    peer_state: PeerStatus = field(default_factory=lambda: PeerStatus("connected", 12.0))
    delay: float = 0.0
    silence: float = 0.0  # seconds before the first event
    refuse: Exception | None = None  # raised before the first event
    no_room: str | None = None  # why the cloud takes no part
    fail_after: int | None = None  # tokens after which RuntimeError is raised
    prefilling: threading.Event = field(default_factory=threading.Event)  # set: no end of it
    active: int = 0
    cancelled: int = 0
    requests: list[GenerationRequest] = field(default_factory=list)
    observers: tuple[AnswerObserver, ...] = ()

    def fingerprint(self, mode: Mode) -> str:
        return f"fp_{mode}"

    def room(self, request: GenerationRequest) -> int:
        return self.context_length - (request.max_tokens or 1)

    def check(self, request: GenerationRequest) -> None:
        if len(request.conversation) > self.room(request):
            param = "prompt" if request.raw else "messages"
            raise ContextLengthError("too long for the model", param=param)

    async def write(self, answer: AnswerState) -> AsyncGenerator[Event, None]:
        with observing(answer, *self.observers) as take:
            async with aclosing(self.generate(answer.request)) as events:
                async for event in events:
                    yield take(event)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        self.active += 1
        try:
            await asyncio.sleep(self.silence)
            if self.refuse is not None:
                raise self.refuse
            yield SourcesFound((SOURCE,))
            if self.no_room is not None:
                yield PeerChanged(joint=False, position=0, reason=self.no_room, refused=True)
            while self.prefilling.is_set():  # noqa: ASYNC110 - another thread clears it
                await asyncio.sleep(0.005)
            async for event in self._write(request):
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.active -= 1

    def _detail(self, position: int, token: int, start: int, top: int) -> TokenDetail:
        """A token that is as likely as the one it is told with, and three quarters the cloud's."""
        text = self.tokenizer.decode([token])
        likeliest = ((token, -0.25), (token + 1, -1.5))[:top]
        end = start + len(text)
        return TokenDetail(
            position, token, text, start, end, -0.25, likeliest, 0.75, (0.25,), tv=0.125
        )

    async def _write(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        stream = request.stream(self.tokenizer)
        tokens = self.tokenizer.encode(self.script)
        limit = len(tokens) if request.max_tokens is None else request.max_tokens
        written = told = 0
        for token in tokens[:limit]:
            if written == self.fail_after:
                raise RuntimeError("a secret of the engine")
            await asyncio.sleep(self.delay)
            ends = token in request.stop_tokens
            text = stream.stop() if ends else stream.push([token])
            written += 1
            if last := stream.stopped or written == min(limit, len(tokens)):
                text += stream.finish()
            if written == 3 and self.no_room is None:
                yield PeerChanged(joint=False, position=3, reason="the peer does not answer")
            yield TextDelta(text, (token,), last)
            if request.details is not None:
                detail = self._detail(written - 1, token, told, request.details.top)
                told = detail.end
                yield Detailed((detail,))
            if stream.stopped:
                break
        complete = stream.stopped or written == len(tokens)
        yield Finished(
            reason="stop" if complete else "length",
            prompt_tokens=request.prompt_tokens(self.tokenizer),
            completion_tokens=written,
            participation=((0, min(3, written)),) if self.no_room is None else (),
            stats={"document_tokens": 7.0},
            stop=stream.met,
        )


class FakeDocuments:
    """A store with three documents, as far as the status line wants to know; it lists none."""

    @property
    def collections(self) -> FakeDocuments:
        return self

    async def move(self, documents: Sequence[str], collection: str) -> None:
        assert not documents, "there are none to move"

    async def list(self) -> list[object]:
        return []

    async def count(self) -> int:
        return 3
