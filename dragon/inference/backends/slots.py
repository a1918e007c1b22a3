"""A backend's room: its free slots, and the sequences that keep the tokens of finished texts.

A sequence that is no longer used keeps its tokens until their room is needed, so that nothing is
computed twice: a text with the same prefix, such as a passage read again or a conversation that
continues, is copied from it.
"""

from __future__ import annotations

import heapq
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq

MAX_CONTEXT = 32768
"""The most positions of a row, whatever the model was trained for."""
BLOCK = 256
"""Positions are acquired and released in blocks of this size."""


def blocks_of(positions: int) -> int:
    return -(-positions // BLOCK)


class Slots:
    """Slots from 0 to `slots`; the lowest free one is taken first, so that used ones stay adjacent.

    A slot has at most `context` positions, and all slots together `room`, unlimited by default.
    `ended` is called with each slot that is released.

    Slots are acquired with all positions that they may ever need: an answer that has begun never
    waits for room, else two of them could wait for each other.
    """

    def __init__(
        self,
        slots: int,
        context: int = 0,
        room: int = sys.maxsize,
        ended: Callable[[int], None] = lambda slot: None,
    ) -> None:
        self.slots = slots
        self.context = context
        self.blocks = room // BLOCK
        self._ended = ended
        self._free = list(range(slots))  # a heap
        self._free_blocks = self.blocks
        self.taken: dict[int, int] = {}  # blocks of each slot in use

    @property
    def free(self) -> int:
        return len(self._free)

    def rows(self, positions: int) -> int:
        """How many rows of this many positions fit if all slots are free."""
        return min(self.slots, self.blocks // max(1, blocks_of(positions)))

    def fits(self, count: int, positions: int) -> bool:
        """Whether `count` rows of this many positions fit now."""
        return count <= self.free and count * blocks_of(positions) <= self._free_blocks

    def acquire(self, count: int, positions: int | None = None) -> list[int] | None:
        """Take the `count` lowest free slots, ascending, or none at all.

        Each gets room for `positions`, by default the whole context.
        """
        positions = self.context if positions is None else positions
        if not self.fits(count, positions):
            return None
        slots = [heapq.heappop(self._free) for _ in range(count)]
        self.taken.update(dict.fromkeys(slots, blocks_of(positions)))
        self._free_blocks -= count * blocks_of(positions)
        return slots

    def release(self, slots: list[int]) -> None:
        for slot in slots:
            self._ended(slot)
            self._free_blocks += self.taken.pop(slot)
            heapq.heappush(self._free, slot)


@dataclass(eq=False)
class KeptTokens:
    """Tokens of a sequence; the first `held` are computed, with the adapter if `adapted`.

    The values of the first `sound` hold for any text with that prefix: they do not depend on where
    a prompt ended. `prompt` says whether the prompt is still being fed.
    """

    sequence: int
    adapted: bool
    tokens: list[int] = field(default_factory=list)
    held: int = 0
    sound: int = 0
    prompt: bool = True

    def cut(self, length: int) -> None:
        """Truncate to `length` tokens; a run cut to nothing starts with a prompt again."""
        del self.tokens[length:]
        self.held = min(self.held, length)
        self.sound = min(self.sound, length)
        self.prompt = self.prompt or length == 0


class PrefixStore:
    """Runs in use, and those kept of finished texts, least recently used first.

    `empty` makes a sequence drop its tokens.
    """

    def __init__(self, sequences: int, empty: Callable[[int], None]) -> None:
        self._empty = empty
        self._unused = list(range(sequences))[::-1]
        self._taken: set[KeptTokens] = set()
        self._kept: OrderedDict[KeptTokens, None] = OrderedDict()

    def take(self, *, adapted: bool) -> KeptTokens:
        """An empty run in its own sequence, evicting the least recently used one if needed."""
        if not self._unused:
            self.evict()
        run = KeptTokens(self._unused.pop(), adapted)
        self._taken.add(run)
        return run

    def keep(self, run: KeptTokens) -> None:
        """Release a run, keeping it for texts with its prefix."""
        self._taken.remove(run)
        self._kept[run] = None
        for each in list(self._kept):
            if each.sound == 0 or (each is not run and _covers(run, each)):
                self._drop(each)

    def evict(self) -> bool:
        """Drop the least recently used run; False if none is kept."""
        if not self._kept:
            return False
        self._drop(next(iter(self._kept)))
        return True

    def longest(self, run: KeptTokens, limit: int) -> tuple[KeptTokens | None, int]:
        """The run that has most of this one's first `limit` tokens, and how many it has.

        None if no run has more than this one itself.
        """
        best, length = None, min(run.held, limit)
        for other in (*self._taken, *self._kept):
            most = min(other.sound, limit)
            # Compare only runs that may have more than the best so far.
            if other.adapted != run.adapted or other is run or most <= length:
                continue
            if other.tokens[:length] == run.tokens[:length]:
                alike = map(eq, run.tokens[length:most], other.tokens[length:most])
                if more := sum(takewhile(bool, alike)):
                    best, length = other, length + more
        if best is not None and best in self._kept:
            self._kept.move_to_end(best)
        return best, length

    def _drop(self, run: KeptTokens) -> None:
        del self._kept[run]
        self._empty(run.sequence)
        self._unused.append(run.sequence)


def _covers(run: KeptTokens, other: KeptTokens) -> bool:
    """Whether everything `other` is kept for is in `run`, too."""
    return (
        run.adapted == other.adapted
        and run.sound >= other.sound
        and run.tokens[: other.sound] == other.tokens[: other.sound]
    )
