"""Which of a backend's slots are free, and how much of their shared memory."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable

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
