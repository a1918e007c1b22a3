"""Where the keys and values of slots lie, so that a row takes the memory it uses, not a context's.

Every layer stores parts of `size` positions, [parts, size, heads, dim]; a `SlotMemory` maps a
slot's positions to parts. On a CPU a part is a slot: it has addresses for a whole context, and the
operating system gives it memory page by page as they are written. A row is then contiguous, and
attention reads it in place; gathering it first would take longer than the rest of a step. On a GPU
torch has no such pages. There a part is a block of a pool, a slot has a table of blocks, and rows
are gathered, for which a GPU has the bandwidth. The pool is also the fallback if addresses cannot
be reserved.
"""

from __future__ import annotations

import heapq
import mmap
import sys
from collections.abc import Sequence
from typing import Protocol

import torch

from dragon.inference.backends.slots import BLOCK, blocks_of

_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # in `mmap` from Python 3.13 on


class SlotMemory(Protocol):
    """Maps slots' positions to `parts` of `size` positions each."""

    parts: int
    size: int

    def zeros(self, heads: int, dim: int, like: torch.Tensor) -> torch.Tensor:
        """Memory of a layer, [parts, size, heads, dim]; zeros, as a masked NaN is still a NaN."""
        ...

    def take(self, slot: int, blocks: int) -> None:
        """Give a slot this many blocks."""
        ...

    def give_back(self, slot: int, blocks: int) -> None:
        """Take back a slot's blocks."""
        ...

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """Where `positions` int64 [B, Q] of these slots are, over all parts: int64 [B, Q]."""
        ...

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """The parts with the first `length` positions of adjacent slots, one row per slot."""
        ...


class Reserved:
    """One part per slot: addresses for its context, and memory for what is written there."""

    def __init__(self, slots: int, context: int) -> None:
        self.parts = slots
        self.size = blocks_of(context) * BLOCK
        self._maps: list[tuple[mmap.mmap, int]] = []  # each with the bytes of a position

    def zeros(self, heads: int, dim: int, like: torch.Tensor) -> torch.Tensor:
        """Pages of a layer; small ones, since clearing huge ones takes longer than a prefill."""
        width = heads * dim * like.element_size()
        pages = _reserve(self.parts * self.size * width)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        self._maps.append((pages, width))
        return torch.frombuffer(pages, dtype=like.dtype).view(self.parts, self.size, heads, dim)

    def take(self, slot: int, blocks: int) -> None:
        """Do nothing: the slot has its part already."""

    def give_back(self, slot: int, blocks: int) -> None:
        """Return its pages: they read as zeros when used again."""
        for pages, width in self._maps:
            start = slot * self.size * width
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            whole = (start + blocks * BLOCK * width - first) // mmap.PAGESIZE * mmap.PAGESIZE
            if whole > 0:
                pages.madvise(mmap.MADV_DONTNEED, first, whole)

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """Slot after slot."""
        return torch.tensor(slots)[:, None] * self.size + positions

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """The slots themselves."""
        return slice(slots[0], slots[-1] + 1)


class Pool:
    """One part per block, and a table of blocks for every slot."""

    def __init__(self, blocks: int) -> None:
        self.parts = blocks
        self.size = BLOCK
        self._free = list(range(blocks))  # a heap
        self._tables: dict[int, list[int]] = {}

    def zeros(self, heads: int, dim: int, like: torch.Tensor) -> torch.Tensor:
        """The pool of a layer."""
        shape = (self.parts, self.size, heads, dim)
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def take(self, slot: int, blocks: int) -> None:
        """Give it free blocks."""
        self._tables[slot] = [heapq.heappop(self._free) for _ in range(blocks)]

    def give_back(self, slot: int, blocks: int) -> None:
        """Take its blocks back."""
        for block in self._tables.pop(slot):
            heapq.heappush(self._free, block)

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """Look them up in the tables."""
        last = int(positions.max()) + 1
        return self._table(slots, last).gather(1, positions // BLOCK) * BLOCK + positions % BLOCK

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """The slots' blocks, int64 [slots, blocks]."""
        return self._table(slots, length)

    def _table(self, slots: Sequence[int], length: int) -> torch.Tensor:
        """The tables; shorter rows repeat their first block: what is past their end is masked."""
        blocks = blocks_of(length)
        tables = (self._tables[slot][:blocks] for slot in slots)
        return torch.tensor([[*table, *table[:1] * (blocks - len(table))] for table in tables])


def slot_memory(
    slots: int, context: int, blocks: int, width: int, device: torch.device
) -> SlotMemory:
    """The layout of slots that share `blocks`; `width` is bytes per position and layer."""
    reserved = Reserved(slots, context)
    if device.type == "cpu" and _reservable(reserved.parts * reserved.size * width):
        return reserved
    return Pool(blocks)


def _reservable(size: int) -> bool:
    """Whether addresses can be reserved without memory; some systems forbid it."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return False
    try:
        _reserve(size).close()
    except (OSError, ValueError):
        return False
    return True


def _reserve(size: int) -> mmap.mmap:
    # Private pages, since shared ones cannot be returned.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return mmap.mmap(-1, size, flags=flags)
