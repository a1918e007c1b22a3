"""KV cache in slots: one preallocated row of keys and values a slot, addressed by position.

A batch names a slot and positions for each of its rows, so rows of different generations and
lengths share one forward, and rolling back is forgetting a length: what lies beyond a row's own
positions is masked, and overwritten when the row comes there again.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from dragon.errors import FrameError
from dragon.inference.backends.slots import Slots

# What a call of attention costs on a CPU, in tokens of a row read by one thread.
_CALL = 256
_GROUP = 16


@dataclass(frozen=True)
class Run:
    """Rows whose slots are side by side and that are about as long: their attention is one call.

    `mask` [rows, 1, Q, T] is 0 where a query may see a key of its slot, else -inf.
    """

    rows: slice
    slots: slice
    mask: torch.Tensor

    @property
    def length(self) -> int:
        """Tokens of the longest row, new ones included."""
        return self.mask.shape[-1]


@dataclass(frozen=True)
class Batch:
    """Where the rows of one forward live: at `positions` int64 [B, Q] of their slots.

    `places` int64 [B Q] are these in all slots, one slot after the other. `length` tokens has the
    longest row, new ones included. `cancelled` says whether the forward is no longer wanted.
    """

    positions: torch.Tensor
    places: torch.Tensor
    length: int
    runs: tuple[Run, ...]
    cancelled: Callable[[], bool]

    @classmethod
    def of(
        cls,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: int,
        context: int,
        device: torch.device,
        dtype: torch.dtype,
        cancelled: Callable[[], bool],
    ) -> Batch:
        """Rows that each take `tokens` more tokens from their start on, in slots of `context`."""
        lengths = [start + tokens for start in starts]
        assert max(lengths) <= context, "the next slot begins there"
        positions = torch.tensor(starts)[:, None] + torch.arange(tokens)
        places = (torch.tensor(slots)[:, None] * context + positions).flatten()
        hidden = torch.zeros(len(slots), 1, tokens, max(lengths), dtype=dtype)
        hidden.masked_fill_(torch.arange(max(lengths)) > positions[:, None, :, None], -math.inf)
        hidden = hidden.to(device)
        runs = []
        groups = _groups(lengths) if device.type == "cpu" else [0, len(lengths)]
        for start, end in pairwise(groups):
            seen = hidden[start:end, ..., : max(lengths[start:end])]
            apart = (i for i in range(start + 1, end) if slots[i] != slots[i - 1] + 1)
            for first, last in pairwise([start, *apart, end]):
                side_by_side = slice(slots[first], slots[first] + last - first)
                runs.append(
                    Run(slice(first, last), side_by_side, seen[first - start : last - start])
                )
        places = places.to(device)
        return cls(positions.to(device), places, max(lengths), tuple(runs), cancelled)


def _groups(lengths: Sequence[int]) -> list[int]:
    """Where groups of rows begin, and the end: what is read and the calls cost least together.

    All rows of a group are read as far as the longest of them, a row or more by each thread. Where
    slots lie has no part in this: a sum's bits depend on how far a row is read.
    """
    threads = torch.get_num_threads()
    most = max(_GROUP, threads)  # rows, so that this is quick for many
    best = [(0, 0)]  # of the first rows: their cost, and where their last group begins
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


# Of the forward under way: not every model hands its arguments down to its attention.
BATCH: ContextVar[Batch] = ContextVar("batch")


@dataclass(frozen=True)
class KV:
    """Keys and values of the tokens a row begins with, each [layers, heads, tokens, dim]."""

    keys: torch.Tensor
    values: torch.Tensor

    def pack(self) -> bytes:
        """As the link carries it: keys, then values, bfloat16, little-endian."""
        both = torch.stack([self.keys, self.values]).to(torch.bfloat16)
        return both.view(torch.uint8).numpy().tobytes()

    @classmethod
    def unpack(cls, data: bytes, layers: int, heads: int, dim: int) -> KV:
        """What `pack` made of a model of this shape; raises `FrameError` for what no model makes.

        A NaN would outlive its answer in the slot: even where it is masked, 0 times it is a NaN.
        """
        both = torch.frombuffer(bytearray(data), dtype=torch.bfloat16)
        if not bool(torch.isfinite(both).all()):
            raise FrameError("document KV must be finite")
        keys, values = both.view(2, layers, heads, -1, dim)
        return cls(keys, values)


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer, [slots, T, heads, dim]: a token's are side by side."""

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self._cache = cache

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate on the first use, when heads, dimension and type are known."""
        _, heads, _, dim = key_states.shape
        shape = (self._cache.slots, self._cache.context, heads, dim)
        self.keys = _zeros(shape, key_states)
        self.values = _zeros(shape, value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store [B, heads, Q, dim] at the batch's positions; all slots, [slots, heads, T, dim]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        places = BATCH.get().places
        for stored, new in ((self.keys, key_states), (self.values, value_states)):
            stored.flatten(0, 1).index_copy_(0, places, new.transpose(1, 2).flatten(0, 1))
        return self.keys.transpose(1, 2), self.values.transpose(1, 2)

    def write(self, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put [heads, n, dim] at the positions 0 to n of a slot."""
        if not self.is_initialized:
            self.lazy_initialization(keys[None], values[None])
        assert self.keys is not None
        assert self.values is not None
        self.keys[slot, : keys.shape[1]] = keys.transpose(0, 1)
        self.values[slot, : values.shape[1]] = values.transpose(0, 1)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a query may see."""
        return BATCH.get().length, 0

    def get_seq_length(self) -> int:
        """Tokens before those of the batch, in its longest row."""
        batch = BATCH.get()
        return batch.length - batch.positions.shape[1]

    def get_max_length(self) -> int:
        """Positions a slot has."""
        return self._cache.context


def _zeros(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """Zeros, since a masked NaN would still be a NaN; on a CPU, untouched pages cost no memory."""
    if like.device.type != "cpu":
        return torch.zeros(shape, dtype=like.dtype, device=like.device)
    # `torch.zeros` writes every page; `numpy.zeros` asks for huge ones, and to clear those when a
    # slot is first used takes longer than a prefill.
    pages = mmap.mmap(-1, math.prod(shape) * like.element_size())
    return torch.frombuffer(pages, dtype=like.dtype).view(shape)


class SlotCache(Slots, Cache):  # type: ignore[misc]
    """The layers of a model, and which of their slots are free."""

    def __init__(self, layers: int, slots: int, context: int) -> None:
        Slots.__init__(self, slots)
        self.context = context
        Cache.__init__(self, layers=[SlotLayer(self) for _ in range(layers)])

    def read(self, slot: int, tokens: int) -> KV:
        """A copy of the first `tokens` positions of a slot, in main memory."""
        keys = torch.stack([layer.keys[slot, :tokens].transpose(0, 1) for layer in self.layers])
        values = torch.stack([layer.values[slot, :tokens].transpose(0, 1) for layer in self.layers])
        return KV(keys.cpu(), values.cpu())

    def write(self, slot: int, kv: KV) -> None:
        """Put keys and values, of the model's type and on its device, where a slot begins."""
        for layer, keys, values in zip(self.layers, kv.keys, kv.values, strict=True):
            layer.write(slot, keys, values)
