"""DRAGON, arXiv 2504.11197, Algorithm 1: two independent drafts in, a draw from the mixture out.

Its randomness is the counter-based noise, in lanes separate from the one that `coupled` shares: one
for each side's drafts and one for everything the aggregating side draws. The token is therefore a
function of the seed and the two distributions, whichever side aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dragon.sampling import mixture, noise
from dragon.sampling.mixture import ETA_ONE, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role


class _Lane(IntEnum):
    """Independent streams of noise; none overlaps the streams 0 to 2^32 - 1."""

    DEVICE_DRAFT = 1
    CLOUD_DRAFT = 2
    DEVICE_RESIDUAL = 3
    CLOUD_RESIDUAL = 4
    COINS = 5


@dataclass(frozen=True)
class _Resample:
    """When and how `Sample` draws again: eta^b, the uniform number sigma^a, the lane."""

    weight: float
    coin: float
    lane: _Lane


_DRAFT_LANE = {Role.DEVICE: _Lane.DEVICE_DRAFT, Role.CLOUD: _Lane.CLOUD_DRAFT}
_COINS = np.arange(3)


@dataclass(frozen=True)
class Drafted:
    """A side's draft token x^s and the distribution p^s it was drawn from."""

    token: int
    side: Side


def draft(role: Role, side: Side, sampling: Sampling, position: int) -> int:
    """x^s_t drawn from p^s, independently of the other side's; at T = 0 its argmax."""
    return mixture.draft(side, sampling, position, _DRAFT_LANE[role])


def possible(token: int, side: Side) -> bool:
    """Whether a side can have drawn this token at all."""
    return _probability(side.wire, token) > 0.0


def target(device: Drafted, cloud: Drafted, sampling: Sampling, position: int) -> int:
    """x_t of Algorithm 1, for T = 1; at T = 0 the argmax of the mixture."""
    if sampling.temperature == 0.0:
        return mixture.target(device.side, cloud.side, sampling, position)
    eta = mixture.device_weight(device.side.log_h, cloud.side.log_h) / ETA_ONE
    stream = mixture.stream(sampling, _Lane.COINS)
    device_coin, cloud_coin, which = noise.uniform(sampling.seed, stream, position, _COINS)
    if which <= 0.5:
        again = _Resample(1.0 - eta, device_coin, _Lane.DEVICE_RESIDUAL)
        return _sample(device, cloud.side, again, sampling, position)
    again = _Resample(eta, cloud_coin, _Lane.CLOUD_RESIDUAL)
    return _sample(cloud, device.side, again, sampling, position)


def _sample(
    drafted: Drafted, other: Side, again: _Resample, sampling: Sampling, position: int
) -> int:
    """`Sample` of Algorithm 1: keep x ~ p^a, or reject it in favour of norm(max(0, p^b - p^a)).

    Either way the result is distributed as the mixture of p^a and p^b.
    """
    own, theirs = drafted.side.wire, other.wire
    p, q = _probability(own, drafted.token), _probability(theirs, drafted.token)
    if p <= q or again.coin >= again.weight * (1.0 - q / p):
        return drafted.token
    residual = theirs.weights * own.total - own.at(theirs.ids, own.weights) * theirs.total
    kept = residual > 0
    return mixture.choose(theirs.ids[kept], residual[kept], sampling, position, again.lane)


def _probability(wire: WireDistribution, token: int) -> float:
    return float(wire.at(np.array([token]), wire.weights)[0]) / wire.total
