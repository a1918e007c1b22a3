"""Turns answers into an HTTP response, at once or as a stream, in any API's form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from fastapi import Request
from fastapi.responses import Response

from app.api.openai.sse import EventStream, unless_gone
from app.container import AppState
from app.generation.accumulator import AnswerState
from app.generation.events import Event, GenerationRequest
from app.problems import Problem, reported
from dragon.inference.fairness import CALLER

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
