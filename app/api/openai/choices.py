"""The choices of one API call: several concurrent generations, read as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from app.generation.accumulator import AnswerState, Write
from app.generation.events import Event, GenerationRequest

# One call with many choices must not take every slot of the engine.
_SIDE_BY_SIDE = 4
_QUEUED_EVENTS = 64


@dataclass(frozen=True)
class Choice:
    """An answer at its place in the response.

    `first` is the first choice of the same prompt; only with it is the prompt scored.
    """

    index: int
    answer: AnswerState
    first: AnswerState


def choices_of(requests: Sequence[GenerationRequest], prompts: int) -> list[Choice]:
    """The choices of a call, not begun; those of each of the `prompts` are adjacent."""
    answers = [AnswerState(request) for request in requests]
    each = len(answers) // prompts
    return [
        Choice(index, answer, answers[index - index % each]) for index, answer in enumerate(answers)
    ]


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


async def merged(
    write: Write, answers: Sequence[AnswerState]
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of all answers as they come, with the answer's index.

    Their states may be ahead of the event that is read. The first error ends all of them and is
    raised; closing the generator cancels all of them.
    """
    if len(answers) == 1:
        async with aclosing(write(answers[0])) as events:
            async for event in events:
                yield 0, event
        return
    queue: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue(_QUEUED_EVENTS)
    places = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def pump(index: int, answer: AnswerState) -> None:
        try:
            async with places, aclosing(write(answer)) as events:
                async for event in events:
                    await queue.put((index, event))
            await queue.put(None)
        except Exception as error:  # passed to the reader, which raises it
            await queue.put(error)

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
