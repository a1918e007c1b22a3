"""Answers as HTTP responses in any API's form: whole, or as a stream that ends with its client."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, TypeVar

import orjson
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.container import AppState
from app.generation.accumulator import AnswerState
from app.generation.events import Event, GenerationRequest
from app.problems import Problem, reported
from dragon.inference.fairness import CALLER

log = logging.getLogger("dragon.answers")
T = TypeVar("T")
# Proxies and clients drop a connection that is silent for longer.
KEEP_ALIVE_S = 10.0
# One call with many choices must not take every slot of the engine.
_SIDE_BY_SIDE = 4
_QUEUED_EVENTS = 64

Events = AsyncGenerator[tuple[int, Event], None]


@dataclass(frozen=True)
class Choice:
    """An answer at its place in the response.

    `first` is the first choice of the same prompt; only with it is the prompt scored.
    """

    index: int
    answer: AnswerState
    first: AnswerState


class ReplyRenderer(Protocol):
    """Renders answers in an API's form, while they are written."""

    def whole(self) -> bytes:
        """The whole response, once the answers are finished."""

    def begin(self) -> Iterable[bytes]:
        """The first frames of its stream."""

    def take(self, index: int, event: Event) -> Iterable[bytes]:
        """The frames for an event of the answer with this index."""

    def end(self) -> Iterable[bytes]:
        """The last frames of its stream."""

    def failed(self, found: Problem) -> bytes:
        """The last frame if an answer fails: no sign of success may follow it."""


def choices_of(requests: Sequence[GenerationRequest], prompts: int) -> list[Choice]:
    """The choices of a call, not begun yet; those of one prompt are adjacent."""
    answers = [AnswerState(request) for request in requests]
    each = len(answers) // prompts
    return [
        Choice(index, answer, answers[index - index % each]) for index, answer in enumerate(answers)
    ]


def choice_of(request: GenerationRequest) -> Choice:
    """The only choice of a call."""
    (choice,) = choices_of([request], 1)
    return choice


def best(choices: Sequence[Choice], prompts: int, kept: int) -> list[Choice]:
    """The `kept` likeliest choices of each prompt, by log-probability per token, renumbered."""
    written = len(choices) // prompts
    if kept == written:
        return list(choices)
    found: list[Choice] = []
    for start in range(0, len(choices), written):
        of_prompt = choices[start : start + written]
        ranked = sorted(of_prompt, key=lambda each: each.answer.likelihood(), reverse=True)
        found += ranked[:kept]
    return [replace(choice, index=index) for index, choice in enumerate(found)]


def begun(state: AppState, choices: Sequence[Choice], user: str | None = None) -> Events:
    """The events of a call's answers, each with the answer's index; `user` gets its own share.

    Raises `InvalidRequestError` for what the model cannot do, before any answer begins.
    """
    if user:
        CALLER.set(f"{CALLER.get()} {user}")
    for choice in choices:
        state.generation.check(choice.answer.request)
    return _written(state, [choice.answer for choice in choices])


async def _written(state: AppState, answers: Sequence[AnswerState]) -> Events:
    """The events of a call's answers as they come, with the answer's index, once it has a place.

    Their states may be ahead of the event that is read. The first error ends all of them and is
    raised; closing the generator cancels all of them.
    """
    write = state.generation.write
    queue: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue(_QUEUED_EVENTS)
    side_by_side = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def pump(index: int, answer: AnswerState) -> None:
        try:
            async with side_by_side, aclosing(write(answer)) as events:
                async for event in events:
                    await queue.put((index, event))
            await queue.put(None)
        except Exception as error:  # passed to the reader, which raises it
            await queue.put(error)

    async with state.admission.place():
        if len(answers) == 1:
            async with aclosing(write(answers[0])) as events:
                async for event in events:
                    yield 0, event
            return
        tasks = [asyncio.create_task(pump(i, answer)) for i, answer in enumerate(answers)]
        try:
            running = len(tasks)
            while running:
                item = await queue.get()
                if item is None:
                    running -= 1
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def named(kind: str, **fields: Any) -> bytes:
    """A named event, with fields of plain values and models."""
    data = orjson.dumps({"type": kind, **fields}, default=_plain)
    return f"event: {kind}\ndata: ".encode() + data + b"\n\n"


def _plain(value: Any) -> Any:
    assert isinstance(value, BaseModel), "events hold models and plain values"
    return value.model_dump(mode="json")


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled with `ClientDisconnect` if the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.create_task(client_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def client_gone(receive: Receive) -> None:
    """Return once the client disconnects; other messages are discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events; unlike a plain streaming response it stops its source at once.

    `source` is read by `frames`, which would not close it if they never began. While there is
    nothing to send, comments keep the connection alive.
    """

    media_type = "text/event-stream"
    comment = b": still working\n\n"

    def __init__(
        self, frames: AsyncGenerator[bytes, None], source: AsyncGenerator[Any, None]
    ) -> None:
        self.status_code = 200
        self.background = None
        self._frames = frames
        self._source = source
        self._sent = time.monotonic()
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_gone(receive, self._send(send))
        except ClientDisconnect:
            log.info("the client left in mid-stream")
        finally:
            await self._frames.aclose()
            await self._source.aclose()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        alive = asyncio.create_task(self._keep_alive(send))
        try:
            async for frame in self._frames:
                self._sent = time.monotonic()
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        finally:
            alive.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self, send: Send) -> None:
        while True:
            silent = time.monotonic() - self._sent
            if silent >= KEEP_ALIVE_S:
                self._sent = time.monotonic()
                await send({"type": "http.response.body", "body": self.comment, "more_body": True})
            else:
                await asyncio.sleep(KEEP_ALIVE_S - silent)


async def respond(
    http: Request,
    events: Events,
    renderer: ReplyRenderer,
    *,
    stream: bool,
    kind: type[EventStream] = EventStream,
) -> Response:
    """The response. Bad input is raised before it begins; if the client leaves, the work ends.

    Raises `ClientDisconnect` if the client is gone.
    """
    if not stream:
        async with aclosing(events):
            await unless_gone(http.receive, _read(events))
        return Response(renderer.whole(), media_type="application/json")
    try:
        # Awaited here, so that a refusal still gets its own status.
        first = await unless_gone(http.receive, anext(events))
    except BaseException:
        await events.aclose()
        raise
    return kind(_frames(first, events, renderer), events)


async def _read(events: Events) -> None:
    async for _ in events:
        pass


async def _frames(
    first: tuple[int, Event], events: Events, renderer: ReplyRenderer
) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        try:
            for frame in chain(renderer.begin(), renderer.take(*first)):
                yield frame
            async for index, event in events:
                for frame in renderer.take(index, event):
                    yield frame
            for frame in renderer.end():
                yield frame
        except Exception as error:
            yield renderer.failed(reported(error, "an answer in mid-stream"))
