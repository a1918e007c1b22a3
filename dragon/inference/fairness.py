"""Callers take turns: whoever asks for much waits behind himself, not others behind him."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""For whom the current task works: a person's page, an API client, a device at its peer."""

LANES = 8


def lane_of(caller: str) -> int:
    """What a peer is told of a caller, so that it lets him have his turn, too."""
    return zlib.crc32(caller.encode()) % LANES


class FairQueue(Generic[T]):
    """First come, first served for each caller; the callers that wait are served in turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # in the order of their turns

    def __len__(self) -> int:
        """How many items wait."""
        return sum(map(len, self._waiting.values()))

    def of(self, caller: str) -> int:
        """How many items of a caller wait."""
        return len(self._waiting.get(caller, ()))

    def put(self, caller: str, item: T) -> None:
        """Queue an item of a caller."""
        self._waiting.setdefault(caller, deque()).append(item)

    def first(self) -> T:
        """What `take` would return."""
        return next(iter(self._waiting.values()))[0]

    def take(self, may: Callable[[str], bool] = lambda _: True) -> T:
        """The next item of the caller whose turn it is, of those that `may` be served.

        Raises `LookupError` where there is none.
        """
        for caller, items in self._waiting.items():
            if may(caller):
                item = items.popleft()
                del self._waiting[caller]
                if items:
                    self._waiting[caller] = items
                return item
        raise LookupError("nothing that may be served waits")

    def keep(self, wanted: Callable[[T], bool]) -> None:
        """Drop what is not wanted any more."""
        kept = {caller: deque(filter(wanted, items)) for caller, items in self._waiting.items()}
        self._waiting = {caller: items for caller, items in kept.items() if items}


def shared(
    items: Sequence[T], caller_of: Callable[[T], Hashable], most: int
) -> tuple[list[T], list[T]]:
    """At most so many items, taken from the callers in turn, and those left over, in order.

    A caller alone has all of its items served.
    """
    turns: dict[Hashable, int] = {}
    ranked = []
    for item in items:
        turn = turns[caller_of(item)] = turns.get(caller_of(item), -1) + 1
        ranked.append(turn)
    if len(turns) < 2 or len(items) <= most:
        return list(items), []
    order = sorted(range(len(items)), key=lambda index: (ranked[index], index))
    chosen = set(order[:most])
    return (
        [item for index, item in enumerate(items) if index in chosen],
        [item for index, item in enumerate(items) if index not in chosen],
    )
