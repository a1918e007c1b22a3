"""Which of a backend's slots are free."""

from __future__ import annotations

import heapq


class Slots:
    """Slots from 0 to `slots`, of which some are free: those in use stay side by side."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free = list(range(slots))  # a heap

    @property
    def free(self) -> int:
        """Slots nobody holds."""
        return len(self._free)

    def acquire(self, count: int) -> list[int] | None:
        """Take the `count` lowest slots that are free, ascending, or none at all."""
        if count > len(self._free):
            return None
        return [heapq.heappop(self._free) for _ in range(count)]

    def release(self, slots: list[int]) -> None:
        """Give slots back."""
        for slot in slots:
            heapq.heappush(self._free, slot)
