"""Threads for what is computed beside answers: grammars compiled, long texts cut into tokens.

A few lines may ask for as much of that as is allowed, again and again. So a caller has one such job
at once, and rests after it in proportion to the processor time that it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from app.cancellation import to_the_end
from app.generation.admission import Places
from dragon.inference.fairness import CALLER

T = TypeVar("T")

_PLACES = 2
REST = 4
"""So many times what a job took goes by before the caller's next one."""


class Threads:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._places = Places(_PLACES, 1)
        self._rested: dict[str, float] = {}  # when a caller has, by its name

    async def run(self, work: Callable[[], T]) -> T:
        """What a job returns, once it is the caller's turn. Cancelled, it still keeps its place."""
        caller = CALLER.get()
        while True:
            async with self._places.one():
                if (left := self._rested.get(caller, 0.0) - time.monotonic()) <= 0:
                    return await to_the_end(self._run(work, caller))
            await asyncio.sleep(left)

    async def _run(self, work: Callable[[], T], caller: str) -> T:
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
            self._rested[caller] = now + REST * spent
