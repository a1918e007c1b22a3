"""How households share the device: places for answers, and threads for other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from app.cancellation import to_the_end
from app.places import Places
from dragon.errors import OverloadedError
from dragon.inference.fairness import HOUSEHOLD
from dragon.localizable import localizable

T = TypeVar("T")

PLACES = 64
FOR_ONE = 56
"""The most places that one household may hold, so that some stay free for others."""
MOST_CALLS = 256
"""Concurrent calls for answers; further ones are refused before their body is read."""
CALLS_FOR_ONE = 224
"""The most concurrent calls of one household, however slowly it sends their bodies."""
_WAIT_S = 0.8
_LOOK_S = 0.05
REST = 4
"""How long a household rests after a job in a thread, in multiples of the job's processor time."""
_THREADS = 2


class Admission:
    """Places for calls; waiting calls are served in turn, household by household.

    A call holds its place until it ends, and its choices share it.
    """

    def __init__(self, places: int = PLACES, for_one: int = FOR_ONE) -> None:
        self._places = Places(places, for_one)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises `OverloadedError` if none becomes free in time."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._places.one(_WAIT_S))
            except TimeoutError:
                raise refusal() from None
            yield

    async def idle(self) -> None:
        """Return once no call has a place."""
        while self._places.held:  # noqa: ASYNC110 (nothing else waits for that)
            await asyncio.sleep(_LOOK_S)


def refusal() -> OverloadedError:
    return OverloadedError(
        localizable("device.busy", "The device is writing as many answers as it can: try again.")
    )


class Threads:
    """Threads for work beside answers: compiling grammars, tokenizing long texts.

    A short request can ask for a lot of such work. So a household runs one job at a time, and then
    rests in proportion to the processor time that the job took.
    """

    def __init__(self) -> None:
        self._places = Places(_THREADS, 1)
        self._rested: dict[str, float] = {}  # when each household's rest ends, by name

    async def run(self, work: Callable[[], T]) -> T:
        """Run a job in its turn; a cancelled one keeps its place until it ends."""
        household = HOUSEHOLD.get().name
        while True:
            async with self._places.one():
                if (left := self._rested.get(household, 0.0) - time.monotonic()) <= 0:
                    return await to_the_end(self._run(work, household))
            await asyncio.sleep(left)

    async def _run(self, work: Callable[[], T], household: str) -> T:
        spent = 0.0

        def timed() -> T:
            nonlocal spent
            began = time.thread_time()
            try:
                return work()
            finally:
                spent = time.thread_time() - began

        try:
            return await asyncio.to_thread(timed)
        finally:
            now = time.monotonic()
            self._rested = {each: at for each, at in self._rested.items() if at > now}
            self._rested[household] = now + REST * spent
