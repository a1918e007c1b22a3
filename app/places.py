"""A limit on concurrent work, shared fairly between households."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragon.inference.fairness import HOUSEHOLD, FairQueue

_MOST_WAITING = 16
"""The most waiting calls of one household; a further one would only wait to be refused."""


class Places:
    """A number of places, at most `for_one` of them for one household; the others wait in turn.

    Belongs to one event loop.
    """

    def __init__(self, places: int, for_one: int) -> None:
        self._free = places
        self._for_one = for_one
        self._held = Counter[str]()
        self._waiting = FairQueue[tuple[str, asyncio.Future[None]]]()

    @asynccontextmanager
    async def one(self, wait_s: float | None = None) -> AsyncIterator[None]:
        """Hold a place for the current household.

        Raises `TimeoutError` if none becomes free within `wait_s` seconds, or at once if too many
        of the household's calls already wait.
        """
        household = HOUSEHOLD.get().name
        if wait_s is not None and self._waiting.of(household) >= _MOST_WAITING:
            raise TimeoutError
        place = asyncio.get_running_loop().create_future()
        self._waiting.put(household, (household, place))
        self._hand_out()
        try:
            async with asyncio.timeout(wait_s):
                await asyncio.shield(place)
        except BaseException:
            self._waiting.keep(lambda each: each[1] is not place)
            if place.done():  # it came at the last moment
                self._leave(household)
            raise
        try:
            yield
        finally:
            self._leave(household)

    @property
    def held(self) -> bool:
        return any(self._held.values())

    def _leave(self, household: str) -> None:
        self._free += 1
        self._held[household] -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and len(self._waiting):
            try:
                household, place = self._waiting.take(lambda each: self._held[each] < self._for_one)
            except LookupError:
                return
            self._free -= 1
            self._held[household] += 1
            place.set_result(None)
