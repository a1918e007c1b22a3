"""The target distribution and the choice from it: integers in, the same token on both sides out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dragon import noise
from dragon.distribution import FullDistribution
from dragon.noise import Ids
from dragon.sampling import STREAM_BITS, Sampling
from dragon.wire import WireDistribution

ETA_ONE = 1 << 16
# A peer that claims a huge relevance must not silence the device's own distribution.
ETA_MIN = ETA_ONE // 50
LOG_H_STEPS = 1024
LOG_H_LIMIT = 64 * LOG_H_STEPS
_TOP_P_STEPS = 1 << 16
# Scores this close are too close for rounded logarithms, which err by some 1e-14.
_DOUBT = 1e-6


@dataclass(frozen=True)
class Side:
    """What one side says about a position: p^s in wire form and log h^s in 1/1024 nats.

    `full` is what the wire form was cut from; it stays on the side it was made on, where details of
    tokens are asked for, and nowhere else is there any.
    """

    wire: WireDistribution
    log_h: int
    full: FullDistribution | None = field(default=None, compare=False)


def fixed_log_h(log_h: float) -> int:
    """log h^s as the wire carries it, clamped to its range."""
    return max(-LOG_H_LIMIT, min(LOG_H_LIMIT, round(log_h * LOG_H_STEPS)))


def device_weight(device_log_h: int, cloud_log_h: int) -> int:
    """eta = h^d / (h^d + h^c) in 1/65536 steps, at least `ETA_MIN` (design, sections 3, 5)."""
    difference = (cloud_log_h - device_log_h) / LOG_H_STEPS
    return max(ETA_MIN, round(ETA_ONE / (1.0 + noise.exp(difference))))


def mixture(device: Side, cloud: Side) -> tuple[Ids, Ids]:
    """Ids [n] and integer weights [n] of p_t: eta q^d S^c + (65536 - eta) q^c S^d.

    With totals of at most 2^17 every weight stays below 2^50, exact in int64 and in float64.
    """
    ids, own, other = _aligned(device, cloud)
    weights = _mixed(device, cloud, own, other)
    kept = weights > 0
    return ids[kept], weights[kept]


def _aligned(device: Side, cloud: Side) -> tuple[Ids, Ids, Ids]:
    """The ids [n] of either side, rising, and each side's weights [n] of them, 0 where absent."""
    both = np.concatenate([device.wire.ids, cloud.wire.ids])
    order = np.argsort(both, kind="stable")  # merges two sorted runs
    both = both[order]
    new = np.concatenate([[True], both[1:] != both[:-1]])
    places = np.empty_like(order)
    places[order] = np.cumsum(new) - 1
    ids = both[new]
    own, other = np.zeros((2, len(ids)), dtype=np.int64)
    own[places[: len(device.wire.ids)]] = device.wire.weights
    other[places[len(device.wire.ids) :]] = cloud.wire.weights
    return ids, own, other


def _mixed(device: Side, cloud: Side, own: Ids, other: Ids) -> Ids:
    eta = device_weight(device.log_h, cloud.log_h)
    return own * (eta * cloud.wire.total) + other * ((ETA_ONE - eta) * device.wire.total)


def nucleus(ids: Ids, weights: Ids, top_p: float) -> tuple[Ids, Ids]:
    """The fewest tokens that hold `top_p` of the weight, heaviest first, ties to the lowest id."""
    if top_p >= 1.0:
        return ids, weights
    order = np.lexsort((ids, -weights))
    steps = max(1, round(top_p * _TOP_P_STEPS))
    needed = -(-steps * int(weights.sum()) // _TOP_P_STEPS)  # ceiling, in unbounded integers
    size = int(np.searchsorted(np.cumsum(weights[order]), needed)) + 1
    kept = np.sort(order[:size])
    return ids[kept], weights[kept]


def choose(ids: Ids, weights: Ids, sampling: Sampling, position: int, lane: int = 0) -> int:
    """x_t = argmax_v log w_v + T G_t(v) over the nucleus, ties to the lowest id.

    Distributed as the weights, tempered (Gumbel-max); at T = 0 it is their argmax. Noise of
    different lanes is independent.
    """
    ids, weights = nucleus(ids, weights, sampling.top_p)
    return _likeliest(ids, weights[None], sampling, position, lane)[0]


def _likeliest(
    ids: Ids, weights: Ids, sampling: Sampling, position: int, lane: int = 0
) -> list[int]:
    """`choose` for each row of weights [k, n] >= 0, over all ids [n].

    The platform's logarithms, fast and right to the last places, say which tokens can be meant.
    Only where these are several do ours, of the same bits everywhere, have to decide.
    """
    if sampling.temperature == 0.0:
        return [int(token) for token in ids[np.argmax(weights, axis=1)]]
    u = noise.uniform(sampling.seed, stream(sampling, lane), position, ids)
    with np.errstate(divide="ignore"):
        rough = np.log(weights) - sampling.temperature * np.log(-np.log(u))
    close = rough >= rough.max(axis=1, keepdims=True) - _DOUBT
    chosen = []
    for row, mask in zip(weights, close, strict=True):
        places = np.flatnonzero(mask)
        if len(places) > 1:
            gumbel = -noise.log(-noise.log(u[places]))
            scores = noise.log(row[places].astype(np.float64)) + sampling.temperature * gumbel
            places = places[[np.argmax(scores)]]
        chosen.append(int(ids[places[0]]))
    return chosen


def stream(sampling: Sampling, lane: int) -> int:
    """The stream of noise for one of several independent uses in the same answer."""
    return sampling.stream + (lane << STREAM_BITS)


def total_variation(one: Side, other: Side) -> float:
    """TV distance between two sides, 0 to 1: half the sum of |p - q| over all tokens."""
    _, p, q = _aligned(one, other)
    return 0.5 * float(np.abs(p / one.wire.total - q / other.wire.total).sum())


def draft(side: Side, sampling: Sampling, position: int, lane: int = 0) -> int:
    """The token a side would take if it were alone."""
    return choose(side.wire.ids, side.wire.weights, sampling, position, lane)


def target(device: Side, cloud: Side, sampling: Sampling, position: int) -> int:
    """The token both sides commit."""
    return choose(*mixture(device, cloud), sampling, position)


@dataclass(frozen=True)
class Judgement:
    """The target, whether it is the device's draft and the cloud's, and the distance of the two."""

    token: int
    kept: tuple[bool, bool]
    tv: float


def judge(device: Side, cloud: Side, sampling: Sampling, position: int) -> Judgement:
    """`target`, both `draft`s and `total_variation` for little more than the first alone.

    They share the ids, and thus the noise, which is what costs.
    """
    ids, own, other = _aligned(device, cloud)
    mixed = _mixed(device, cloud, own, other)
    if sampling.top_p < 1.0:
        rows = [(ids[row > 0], row[row > 0]) for row in (mixed, own, other)]
        tokens = [choose(*row, sampling, position) for row in rows]
    else:
        tokens = _likeliest(ids, np.stack([mixed, own, other]), sampling, position)
    tv = 0.5 * float(np.abs(own / device.wire.total - other / cloud.wire.total).sum())
    return Judgement(tokens[0], (tokens[1] == tokens[0], tokens[2] == tokens[0]), tv)
