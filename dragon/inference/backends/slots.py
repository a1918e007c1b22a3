"""Which of a backend's slots are free, and how much of the memory that they share."""

from __future__ import annotations

import heapq
import sys

MAX_CONTEXT = 32768
"""Positions that a row has at most, whatever the model was trained for."""
BLOCK = 256
"""Positions that an answer takes, and gives back, at once."""


def blocks_of(positions: int) -> int:
    """How many blocks hold so many positions."""
    return -(-positions // BLOCK)


class Slots:
    """Slots from 0 to `slots`, of which some are free: those in use stay side by side.

    A slot has `context` positions at most, and all of them together have `room`, by default as many
    as they like. Whoever takes slots takes at once all positions that he may ever need: an answer
    that has begun never waits for room, else two of them could wait for each other.
    """

    def __init__(self, slots: int, context: int = 0, room: int = sys.maxsize) -> None:
        self.slots = slots
        self.context = context
        self.blocks = room // BLOCK
        self._free = list(range(slots))  # a heap
        self._free_blocks = self.blocks
        self.taken: dict[int, int] = {}  # blocks of each slot in use

    @property
    def free(self) -> int:
        """Slots nobody holds."""
        return len(self._free)

    def rows(self, positions: int) -> int:
        """How many rows of so many positions there is room for, when nobody holds any."""
        return min(self.slots, self.blocks // max(1, blocks_of(positions)))

    def fits(self, count: int, positions: int) -> bool:
        """Whether there is room now for `count` rows of so many positions."""
        return count <= self.free and count * blocks_of(positions) <= self._free_blocks

    def acquire(self, count: int, positions: int | None = None) -> list[int] | None:
        """Take the `count` lowest slots that are free, ascending, or none at all.

        Each with room for so many positions, by default for all it has.
        """
        positions = self.context if positions is None else positions
        if not self.fits(count, positions):
            return None
        slots = [heapq.heappop(self._free) for _ in range(count)]
        self.taken.update(dict.fromkeys(slots, blocks_of(positions)))
        self._free_blocks -= count * blocks_of(positions)
        return slots

    def release(self, slots: list[int]) -> None:
        """Give slots back, and the room that they had."""
        for slot in slots:
            self._free_blocks += self.taken.pop(slot)
            heapq.heappush(self._free, slot)
