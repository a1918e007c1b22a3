"""The choices of one request: several generations run side by side, read as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from app.events import (
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    Source,
    SourcesFound,
    TextDelta,
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
        self.sources: tuple[Source, ...] = ()
        self.nothing_relevant = False
        self.tokens = 0
        self._texts: list[str] = []
        self._end: Finished | None = None

    def take(self, event: Event) -> None:
        """Note an event."""
        match event:
            case SourcesFound(sources=sources, nothing_relevant=nothing_relevant):
                self.sources, self.nothing_relevant = sources, nothing_relevant
            case TextDelta(text=text, tokens=tokens):
                self._texts.append(text)
                self.tokens += len(tokens)
            case Finished():
                self._end = event
            case PeerChanged():
                pass  # the intervals come with the end

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def end(self) -> Finished:
        """How it ended; only a whole choice has an end."""
        if self._end is None:
            raise RuntimeError("the generation ended without saying how")
        return self._end


async def merged(
    generate: Generate, requests: Sequence[GenerationRequest]
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of every request as they come, with the request's index.

    The first error ends all of them and is raised; closing the generator cancels all of them.
    """
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
