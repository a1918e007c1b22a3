"""The target distribution and the choice from it: integers in, the same token on both sides out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dragon import noise
from dragon.noise import Ids
from dragon.sampling import STREAM_BITS, Sampling
from dragon.wire import WireDistribution

ETA_ONE = 1 << 16
# A peer that claims a huge relevance must not silence the device's own distribution.
ETA_MIN = ETA_ONE // 50
LOG_H_STEPS = 1024
LOG_H_LIMIT = 64 * LOG_H_STEPS
_TOP_P_STEPS = 1 << 16


@dataclass(frozen=True)
class Side:
    """What one side says about a position: p^s in wire form and log h^s in 1/1024 nats."""

    wire: WireDistribution
    log_h: int


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
    eta = device_weight(device.log_h, cloud.log_h)
    ids = np.union1d(device.wire.ids, cloud.wire.ids)
    weights = np.zeros(len(ids), dtype=np.int64)
    at = np.searchsorted(ids, device.wire.ids)
    weights[at] += device.wire.weights * (eta * cloud.wire.total)
    at = np.searchsorted(ids, cloud.wire.ids)
    weights[at] += cloud.wire.weights * ((ETA_ONE - eta) * device.wire.total)
    kept = weights > 0
    return ids[kept], weights[kept]


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
    if sampling.temperature == 0.0:
        return int(ids[np.argmax(weights)])
    gumbel = noise.gumbel(sampling.seed, stream(sampling, lane), position, ids)
    scores = noise.log(weights.astype(np.float64)) + sampling.temperature * gumbel
    return int(ids[np.argmax(scores)])


def stream(sampling: Sampling, lane: int) -> int:
    """The stream of noise for one of several independent uses in the same answer."""
    return sampling.stream + (lane << STREAM_BITS)


def total_variation(one: Side, other: Side) -> float:
    """TV distance between two sides, 0 to 1: half the sum of |p - q| over all tokens."""
    ids = np.union1d(one.wire.ids, other.wire.ids)
    difference = np.zeros(len(ids))
    difference[np.searchsorted(ids, one.wire.ids)] += one.wire.weights / one.wire.total
    difference[np.searchsorted(ids, other.wire.ids)] -= other.wire.weights / other.wire.total
    return 0.5 * float(np.abs(difference).sum())


def draft(side: Side, sampling: Sampling, position: int, lane: int = 0) -> int:
    """The token a side would take if it were alone."""
    return choose(side.wire.ids, side.wire.weights, sampling, position, lane)


def target(device: Side, cloud: Side, sampling: Sampling, position: int) -> int:
    """The token both sides commit."""
    return choose(*mixture(device, cloud), sampling, position)
