"""Where the keys and values of slots lie, so that a row takes what it uses and not its context.

Every layer stores parts of so many positions, [parts, size, heads, dim]; a `Layout` says which part
holds a slot's positions. On a CPU a part is a slot: it has addresses for a whole context, and the
operating system gives it memory page by page as they are written. So a row is never in pieces, and
attention reads it where it lies; to gather it first would take longer than the rest of a step. On a
GPU torch can have no such pages. There a part is a block of a pool, a slot has a table of them, and
rows are gathered, for which a GPU has the bandwidth. The pool also serves where addresses cannot be
had.
"""

from __future__ import annotations

import heapq
import mmap
import sys
from collections.abc import Sequence
from typing import Protocol

import torch

from dragon.inference.backends.slots import BLOCK, blocks_of

_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # `mmap` names it from Python 3.13 on


class Layout(Protocol):
    """Which parts hold a slot's positions, of `parts` with `size` positions each."""

    parts: int
    size: int

    def zeros(self, heads: int, dim: int, like: torch.Tensor) -> torch.Tensor:
        """Memory of a layer, [parts, size, heads, dim]; zeros, as a masked NaN is still a NaN."""
        ...

    def take(self, slot: int, blocks: int) -> None:
        """A slot has so many blocks from now on."""
        ...

    def give_back(self, slot: int, blocks: int) -> None:
        """A slot has none any more."""
        ...

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """Of `positions` int64 [B, Q] of these slots, int64 [B, Q]: one part after the other."""
        ...

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """The parts with the first `length` positions of slots side by side, a row a slot."""
        ...


class Reserved:
    """A part a slot: addresses for its context, and memory for what is written there."""

    def __init__(self, slots: int, context: int) -> None:
        self.parts = slots
        self.size = blocks_of(context) * BLOCK
        self._maps: list[tuple[mmap.mmap, int]] = []  # with the bytes of a position

    def zeros(self, heads: int, dim: int, like: torch.Tensor) -> torch.Tensor:
        """Pages of a layer; small ones, since to clear huge ones takes longer than a prefill."""
        width = heads * dim * like.element_size()
        pages = _reserve(self.parts * self.size * width)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        self._maps.append((pages, width))
        return torch.frombuffer(pages, dtype=like.dtype).view(self.parts, self.size, heads, dim)

    def take(self, slot: int, blocks: int) -> None:
        """It has them already."""

    def give_back(self, slot: int, blocks: int) -> None:
        """Give its pages back: they are zeros when they are used again."""
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
    """A part a block, and a table of its blocks for every slot."""

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
        """Give it blocks that are free."""
        self._tables[slot] = [heapq.heappop(self._free) for _ in range(blocks)]

    def give_back(self, slot: int, blocks: int) -> None:
        """Take its blocks back."""
        for block in self._tables.pop(slot):
            heapq.heappush(self._free, block)

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """By the tables."""
        last = int(positions.max()) + 1
        return self._table(slots, last).gather(1, positions // BLOCK) * BLOCK + positions % BLOCK

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """Their blocks, int64 [slots, blocks]."""
        return self._table(slots, length)

    def _table(self, slots: Sequence[int], length: int) -> torch.Tensor:
        """Of shorter rows the first block again: what is behind their end is masked."""
        blocks = blocks_of(length)
        tables = (self._tables[slot][:blocks] for slot in slots)
        return torch.tensor([[*table, *table[:1] * (blocks - len(table))] for table in tables])


def layout(slots: int, context: int, blocks: int, width: int, device: torch.device) -> Layout:
    """For slots that share `blocks`, on a device; `width` bytes a position takes in a layer."""
    reserved = Reserved(slots, context)
    if device.type == "cpu" and _reservable(reserved.parts * reserved.size * width):
        return reserved
    return Pool(blocks)


def _reservable(size: int) -> bool:
    """Whether addresses can be had without memory, which some systems are set not to give."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return False
    try:
        _reserve(size).close()
    except (OSError, ValueError):
        return False
    return True


def _reserve(size: int) -> mmap.mmap:
    # Private pages, since shared ones cannot be given back.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return mmap.mmap(-1, size, flags=flags)
