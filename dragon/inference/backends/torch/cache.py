"""KV cache in slots: a row of keys and values per slot, addressed by position.

A batch gives a slot and positions for each of its rows, so rows of different generations and
lengths share one forward, and rolling back means forgetting a length: what lies beyond a row's own
positions is masked, and overwritten when the row gets there again.

A row takes the memory it uses, not a context's. Every layer stores parts of `size` positions,
[parts, size, heads, dim]. On a CPU (`Reserved`) a part is a slot: it has addresses for a whole
context, and the operating system gives it memory page by page as they are written. A row is then
contiguous, and attention reads it in place; gathering it first would take longer than the rest of a
step. On a GPU torch has no such pages. There (`Pool`) a part is a block, a slot has a table of
blocks, and rows are gathered, for which a GPU has the bandwidth. The pool is also the fallback if
addresses cannot be reserved.
"""

from __future__ import annotations

import heapq
import math
import mmap
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from transformers.cache_utils import Cache, CacheLayerMixin

from dragon.errors import FrameError
from dragon.inference.backends.slots import BLOCK, Slots, blocks_of

# The cost of a call of attention, in tokens of a row read by one thread: measured on a CPU,
# elsewhere only a bound on what a short row reads because of a longer one.
_CALL = 256
_GROUP = 16
_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # in `mmap` from Python 3.13 on


@dataclass(frozen=True)
class AdjacentRows:
    """Rows in adjacent slots and of similar length: their attention is one call.

    `where` are the parts of memory they lie in, as `Reserved.where` says. `mask` [rows, 1, Q, T]
    is 0 where a query may see a key of its slot, else -inf.
    """

    rows: slice
    where: slice | torch.Tensor
    mask: torch.Tensor

    def read(self, stored: torch.Tensor) -> torch.Tensor:
        """Read these rows of `stored` [parts, size, heads, dim], as [rows, heads, T, dim]."""
        return _read(stored, self.where, self.mask.shape[-1])


def _read(stored: torch.Tensor, where: slice | torch.Tensor, length: int) -> torch.Tensor:
    rows = stored[where]
    if not isinstance(where, slice):
        rows = rows.flatten(1, 2)
    return rows[:, :length].transpose(1, 2)


@dataclass(frozen=True)
class SlotBatch:
    """Where the rows of one forward live: at `positions` int64 [B, Q] of their slots.

    `places` int64 [B Q] are these positions in memory, counted over all parts. `length` is the
    number of tokens of the longest row, new ones included.
    """

    positions: torch.Tensor
    places: torch.Tensor
    length: int
    runs: tuple[AdjacentRows, ...]
    cancelled: Callable[[], bool]


def _groups(lengths: Sequence[int]) -> list[int]:
    """Boundaries of the row groups that minimise the cost of reading and calls together.

    All rows of a group are read as far as the longest of them, one or more rows per thread. The
    slots' order plays no part: a sum's bits depend on how far a row is read.
    """
    threads = torch.get_num_threads()
    most = max(_GROUP, threads)  # bounds the search
    best = [(0, 0)]  # per number of first rows: their cost, and where their last group begins
    for end in range(1, len(lengths) + 1):
        longest, costs = 0, []
        for start in range(end - 1, max(-1, end - 1 - most), -1):
            longest = max(longest, lengths[start])
            cost = _CALL * threads + longest * max(threads, end - start)
            costs.append((best[start][0] + cost, start))
        best.append(min(costs))
    cuts = [len(lengths)]
    while cuts[-1] > 0:
        cuts.append(best[cuts[-1]][1])
    return cuts[::-1]


# The forward in progress; not every model passes its arguments down to its attention.
BATCH: ContextVar[SlotBatch] = ContextVar("batch")


@dataclass(frozen=True)
class TensorKV:
    """Keys and values of a row's first tokens, each [layers, heads, tokens, dim]."""

    keys: torch.Tensor
    values: torch.Tensor

    def pack(self) -> bytes:
        """Keys, then values, bfloat16, little-endian."""
        both = torch.stack([self.keys, self.values]).to(torch.bfloat16)
        return both.view(torch.uint8).numpy().tobytes()

    def dump(self) -> bytes:
        data: bytes = save({"keys": self.keys.contiguous(), "values": self.values.contiguous()})
        return data

    @classmethod
    def load(cls, data: bytes) -> TensorKV:
        """The inverse of `dump`; raises `ValueError` if the data is damaged."""
        try:
            tensors = load(data)
            return cls(tensors["keys"], tensors["values"])
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"no keys and values: {error}") from error

    @classmethod
    def unpack(cls, data: bytes, layers: int, heads: int, dim: int) -> TensorKV:
        """The inverse of `pack` for a model of this shape; raises `FrameError` for impossible data.

        A NaN would outlive its answer in the slot: even if it is masked, 0 times NaN is NaN.
        """
        both = torch.frombuffer(bytearray(data), dtype=torch.bfloat16)
        if not bool(torch.isfinite(both).all()):
            raise FrameError("document KV must be finite")
        keys, values = both.view(2, layers, heads, -1, dim)
        return cls(keys, values)


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer, [parts, size, heads, dim]: a token's are contiguous."""

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self._cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate on first use, when heads, dimension and type are known."""
        self.keys: torch.Tensor = self._cache.layout.zeros(key_states)
        self.values: torch.Tensor = self._cache.layout.zeros(value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store [B, heads, Q, dim] at the batch's positions; return everything stored."""
        return self.store(BATCH.get().places, key_states, value_states)

    def store(
        self, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [B, heads, Q, dim] to these places, int64 [B Q]; return everything stored."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        for stored, new in ((self.keys, keys), (self.values, values)):
            stored.flatten(0, 1).index_copy_(0, places, new.transpose(1, 2).flatten(0, 1))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a query may see."""
        return BATCH.get().length, 0

    def get_seq_length(self) -> int:
        """Tokens before those of the batch, in its longest row."""
        batch = BATCH.get()
        return batch.length - batch.positions.shape[1]

    def get_max_length(self) -> int:
        return self._cache.context


class SlotCache(Slots, Cache):  # type: ignore[misc]
    """A model's layers, and which of their slots are free.

    `width` is the bytes of a position in a layer, keys or values.
    """

    def __init__(
        self, layers: int, slots: int, context: int, room: int, width: int, device: torch.device
    ) -> None:
        Slots.__init__(self, slots, context, room)
        self._device = device
        self.layout = slot_memory(slots, context, self.blocks, width, device)
        Cache.__init__(self, layers=[SlotLayer(self) for _ in range(layers)])

    def batch(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: int,
        dtype: torch.dtype,
        cancelled: Callable[[], bool],
    ) -> SlotBatch:
        """A batch of rows that each take `tokens` more tokens from their start on."""
        device = self._device
        lengths = [start + tokens for start in starts]
        assert max(lengths) <= self.context, "the next slot begins there"
        positions = torch.tensor(starts)[:, None] + torch.arange(tokens)
        places = self.layout.places(slots, positions).flatten()
        runs = []
        for start, end in pairwise(_groups(lengths)):
            longest = max(lengths[start:end])
            hidden = torch.arange(longest) > positions[start:end, None, :, None]
            mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -math.inf).to(device)
            apart = (i for i in range(start + 1, end) if slots[i] != slots[i - 1] + 1)
            for first, last in pairwise([start, *apart, end]):
                where = self.layout.where(slots[first:last], longest)
                if not isinstance(where, slice):
                    where = where.to(device)
                runs.append(
                    AdjacentRows(slice(first, last), where, mask[first - start : last - start])
                )
        places = places.to(device)
        return SlotBatch(positions.to(device), places, max(lengths), tuple(runs), cancelled)

    def acquire(self, count: int, positions: int | None = None) -> list[int] | None:
        slots = super().acquire(count, positions)
        for slot in slots or ():
            self.layout.take(slot, self.taken[slot])
        return slots

    def release(self, slots: list[int]) -> None:
        for slot in slots:
            self.layout.give_back(slot, self.taken[slot])
        super().release(slots)

    def read(self, slot: int, tokens: int) -> TensorKV:
        """A copy of the first `tokens` positions of a slot, in main memory."""
        where = self.layout.where([slot], tokens)
        keys = torch.stack([_read(layer.keys, where, tokens)[0] for layer in self.layers])
        values = torch.stack([_read(layer.values, where, tokens)[0] for layer in self.layers])
        return TensorKV(keys.cpu(), values.cpu())

    def write(self, slot: int, kv: TensorKV) -> None:
        """Write keys and values, of the model's type and on its device, to the start of a slot."""
        positions = torch.arange(kv.keys.shape[2])[None]
        places = self.layout.places([slot], positions).flatten().to(kv.keys.device)
        for layer, keys, values in zip(self.layers, kv.keys, kv.values, strict=True):
            layer.store(places, keys[None], values[None])


class Reserved:
    """One part per slot: addresses for its context, and memory for what is written there."""

    def __init__(self, slots: int, context: int) -> None:
        self.parts = slots
        self.size = blocks_of(context) * BLOCK
        self._maps: list[tuple[mmap.mmap, int]] = []  # each with the bytes of a position

    def zeros(self, like: torch.Tensor) -> torch.Tensor:
        """Memory for the keys or values of a layer, `like` [B, heads, Q, dim].

        It is [parts, size, heads, dim], and zeros, as a masked NaN is still a NaN. The pages are
        small ones, since clearing huge ones takes longer than a prefill.
        """
        _, heads, _, dim = like.shape
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
        """The places of `positions` int64 [B, Q] of these slots, over all parts: int64 [B, Q]."""
        return torch.tensor(slots)[:, None] * self.size + positions

    def where(self, slots: Sequence[int], length: int) -> slice | torch.Tensor:
        """The parts with the first `length` positions of adjacent slots, one row per slot."""
        return slice(slots[0], slots[-1] + 1)


class Pool:
    """As `Reserved`, but with one part per block, and a table of blocks for every slot."""

    def __init__(self, blocks: int) -> None:
        self.parts = blocks
        self.size = BLOCK
        self._free = list(range(blocks))  # a heap
        self._tables: dict[int, list[int]] = {}

    def zeros(self, like: torch.Tensor) -> torch.Tensor:
        _, heads, _, dim = like.shape
        return like.new_zeros(self.parts, self.size, heads, dim)

    def take(self, slot: int, blocks: int) -> None:
        self._tables[slot] = [heapq.heappop(self._free) for _ in range(blocks)]

    def give_back(self, slot: int, blocks: int) -> None:
        for block in self._tables.pop(slot):
            heapq.heappush(self._free, block)

    def places(self, slots: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        tables = self.where(slots, int(positions.max()) + 1)
        return tables.gather(1, positions // BLOCK) * BLOCK + positions % BLOCK

    def where(self, slots: Sequence[int], length: int) -> torch.Tensor:
        """int64 [slots, blocks]; short rows repeat a block: what is past their end is masked."""
        blocks = blocks_of(length)
        tables = (self._tables[slot][:blocks] for slot in slots)
        return torch.tensor([[*table, *table[:1] * (blocks - len(table))] for table in tables])


def slot_memory(
    slots: int, context: int, blocks: int, width: int, device: torch.device
) -> Reserved | Pool:
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
