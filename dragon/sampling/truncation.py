"""Truncation: the tokens of a mixture that may be chosen, by `min_p`, then `top_k`, then `top_p`.

Each filters the tokens that the one before has kept, as in vLLM. All compare integers, so that both
sides keep the same tokens, and all keep the heaviest token.
"""

from __future__ import annotations

import numpy as np

from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling

STEPS = 1 << 16
"""Of `top_p` and `min_p`."""


def truncated(ids: Ids, weights: Ids, sampling: Sampling) -> tuple[Ids, Ids]:
    """The tokens that may be chosen, of rising ids [n] and their weights [n]."""
    if sampling.min_p > 0.0:
        likely = weights >= least_likely(int(weights.max()), sampling.min_p)
        ids, weights = ids[likely], weights[likely]
    if 0 < sampling.top_k < len(ids):  # ties to the lowest id
        heaviest = np.sort(np.lexsort((ids, -weights))[: sampling.top_k])
        ids, weights = ids[heaviest], weights[heaviest]
    return nucleus(ids, weights, sampling.top_p)


def least_likely(most: int, min_p: float) -> int:
    """The least weight kept by `min_p` if the heaviest token weighs `most`."""
    return -(-round(min_p * STEPS) * most // STEPS)  # ceiling, in unbounded integers


def nucleus(ids: Ids, weights: Ids, top_p: float) -> tuple[Ids, Ids]:
    """The fewest tokens that hold `top_p` of the weight, heaviest first, ties to the lowest id."""
    if top_p >= 1.0:
        return ids, weights
    order = np.lexsort((ids, -weights))
    needed = -(-steps_of(top_p) * int(weights.sum()) // STEPS)  # ceiling, in unbounded integers
    size = int(np.searchsorted(np.cumsum(weights[order]), needed)) + 1
    kept = np.sort(order[:size])
    return ids[kept], weights[kept]


def steps_of(top_p: float) -> int:
    """The share of the weight a nucleus holds, in 1/65536."""
    return max(1, round(top_p * STEPS))
