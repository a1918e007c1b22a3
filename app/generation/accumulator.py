"""The choices of one request: several generations run side by side, read as one stream."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from app.generation.events import (
    Detailed,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    PromptDetailed,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)

# One request with many choices must not take every slot of the engine.
_SIDE_BY_SIDE = 4
_QUEUED_EVENTS = 64

Generate = Callable[[GenerationRequest], AsyncGenerator[Event, None]]


class Choice:
    """What one generation has said so far."""

    def __init__(self, index: int, request: GenerationRequest) -> None:
        self.index = index
        self.request = request
        self.found = SourcesFound(())
        self.tokens: list[int] = []
        self.prompt: tuple[TokenDetail, ...] = ()
        self.details: list[TokenDetail] = []
        self._texts: list[str] = []
        self._end: Finished | None = None
        self._jointly: list[tuple[int, int]] = []
        self._joint_since: int | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it was written from, as far as it is known."""
        return self.found.sources

    def take(self, event: Event) -> None:
        """Note an event."""
        match event:
            case SourcesFound():
                self.found = event
            case TextDelta(text=text, tokens=tokens):
                self._texts.append(text)
                self.tokens += tokens
            case Detailed(details=details):
                self.details += details
            case PromptDetailed(details=details):
                self.prompt = details
            case Finished():
                self._end = event
            case PeerChanged(joint=joint, position=position):
                if joint:
                    self._joint_since = position
                elif self._joint_since is not None:
                    self._jointly.append((self._joint_since, position))
                    self._joint_since = None

    @property
    def participation(self) -> list[tuple[int, int]]:
        """The token ranges written jointly so far, half open."""
        if self._end is not None:
            return list(self._end.participation)
        last = [] if self._joint_since is None else [(self._joint_since, len(self.tokens))]
        return [(start, end) for start, end in (*self._jointly, *last) if start < end]

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    def likelihood(self) -> float:
        """The mean log-probability of its tokens in the full mixture."""
        values = [d.logprob for d in self.details if d.logprob is not None]
        return sum(values) / len(values) if values else -math.inf

    @property
    def end(self) -> Finished:
        """How it ended; only a whole choice has an end."""
        if self._end is None:
            raise RuntimeError("the generation ended without saying how")
        return self._end


def best(choices: Sequence[Choice], prompts: int, kept: int) -> list[Choice]:
    """The `kept` likeliest choices of each of so many prompts, by log-probability a token."""
    written = len(choices) // prompts
    if kept == written:
        return list(choices)
    found: list[Choice] = []
    for start in range(0, len(choices), written):
        ranked = sorted(choices[start : start + written], key=Choice.likelihood, reverse=True)
        found += ranked[:kept]
    for index, choice in enumerate(found):
        choice.index = index
    return found


async def merged(
    generate: Generate, requests: Sequence[GenerationRequest]
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of every request as they come, with the request's index.

    The first error ends all of them and is raised; closing the generator cancels all of them.
    """
    if len(requests) == 1:
        async with aclosing(generate(requests[0])) as events:
            async for event in events:
                yield 0, event
        return
    queue: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue(_QUEUED_EVENTS)
    places = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def pump(index: int, request: GenerationRequest) -> None:
        try:
            async with places, aclosing(generate(request)) as events:
                async for event in events:
                    await queue.put((index, event))
            await queue.put(None)
        except Exception as error:  # carried over to the reader, who raises it
            await queue.put(error)

    tasks = [asyncio.create_task(pump(i, request)) for i, request in enumerate(requests)]
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
