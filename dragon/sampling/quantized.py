"""The wire form of a next-token distribution: a nucleus of sorted ids with integer weights.

The wire form is not an approximation of something: from the cut on, a side's distribution *is* its
wire form. The side drafts from it, sends it and mixes it. With drafts drawn before the cut, tokens
outside the nucleus would always be accepted, and the text would depend on who aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dragon.errors import FrameError
from dragon.sampling.noise import Ids

Number = TypeVar("Number", bound=np.generic)
SCALE = 1 << 16
NUCLEUS_MASS = 0.98
NUCLEUS_CAP = 4096
_FEW = 512


@dataclass(frozen=True, eq=False)
class WireDistribution:
    """p^s: `weights` int64 [n] >= 1 over rising token `ids` int64 [n]; `total` their sum."""

    ids: Ids
    weights: Ids
    total: int

    def __post_init__(self) -> None:
        if not 0 < len(self.ids) == len(self.weights):
            raise FrameError("a distribution needs at least one token, and a weight for each")
        if self.ids[0] < 0 or not bool((self.ids[1:] > self.ids[:-1]).all()):
            raise FrameError("token ids of a distribution must rise")
        # Bounds the products of the mixture below 2^63.
        if int(self.weights.min()) < 1 or self.total != int(self.weights.sum()):
            raise FrameError("weights of a distribution must be positive and add up to its total")
        if self.total > 2 * SCALE:
            raise FrameError(f"weights of a distribution may add up to at most {2 * SCALE}")

    @classmethod
    def of(cls, ids: Sequence[int] | Ids, weights: Sequence[int] | Ids) -> WireDistribution:
        """Checks ids and weights; raises `FrameError` if they do not form a distribution."""
        weight_array = np.asarray(weights, dtype=np.int64)
        return cls(np.asarray(ids, dtype=np.int64), weight_array, int(weight_array.sum()))

    def at(self, ids: Ids, values: NDArray[Number]) -> NDArray[Number]:
        """The `values` [n], one per token here, of the tokens `ids` [m]; 0 for a token not here."""
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, values[places], values.dtype.type(0))

    def dense(self, size: int) -> Ids:
        """The weights of tokens 0 to `size`, exclusive and above the largest id: int64 [size]."""
        weights = np.zeros(size, dtype=np.int64)
        weights[self.ids] = self.weights
        return weights

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WireDistribution)
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.weights, other.weights)
        )


@dataclass(frozen=True)
class NucleusCut:
    """A distribution in wire form and the cost of the cut: the mass kept, and TV(full, wire)."""

    wire: WireDistribution
    mass: float
    tv: float


def cut(
    whole: NDArray[np.float32], *, mass: float = NUCLEUS_MASS, cap: int = NUCLEUS_CAP
) -> NucleusCut:
    """Cut probabilities float32 [V] to a nucleus: the fewest tokens holding `mass`, at most `cap`.

    Weights are the renormalised probabilities in steps of 1/65536, at least one each.
    """
    possible = whole[whole > 0]
    for most in (min(_FEW, cap), cap):  # a large top is slow, and a small one is usually enough
        top = _largest(possible, most)
        reached = np.cumsum(top, dtype=np.float64) >= mass
        if reached[-1]:
            break
    size = int(np.argmax(reached)) + 1 if reached[-1] else len(top)
    least = top[size - 1]
    ids = np.flatnonzero(whole >= least)
    if len(ids) > size:  # of equally likely tokens keep the lowest ids
        ids = np.sort(ids[np.argsort(-whole[ids], kind="stable")[:size]])
    values = whole[ids].astype(np.float64)
    kept = float(values.sum())
    weights = np.maximum(np.rint(values / kept * SCALE).astype(np.int64), 1)
    wire = WireDistribution(ids, weights, int(weights.sum()))
    tv = 0.5 * (float(np.abs(values - weights / wire.total).sum()) + max(0.0, 1.0 - kept))
    return NucleusCut(wire, kept, tv)


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The `count` largest values, falling. Faster than `torch.topk`, which branches per value."""
    start = max(0, len(values) - count)
    return np.sort(np.partition(values, start)[start:])[::-1]
