"""The target distribution and the choice from it: integers in, the same token on both sides out.

A side s has a distribution for each of its rows d, and relevances R in nats, on a scale that both
sides share. Its own is p^s = sum over d of softmax(R)_d p(. | d, text), and log h^s the logsumexp
of R. A side without an answer has one bare row, with a low R. The target distribution is
p_t = eta p^d + (1 - eta) p^c with eta = h^d / (h^d + h^c).

`target` is the slow reference. `raced_target` costs little more than a draft: paces are linear in
the weights, so those of the mixture are a mixture of the two sides'. Each side's tokens are raced
once per position, for its draft, and only tokens that reach half of the best pace on one side can
be the target. Truncation (`top_p`, say) acts on the mixture itself, so it takes the slow way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dragon.sampling import noise
from dragon.sampling.noise import Floats, Ids
from dragon.sampling.params import STREAM_BITS, Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.truncation import truncated

ETA_ONE = 1 << 16
# A peer that claims a huge relevance must not silence the device's own distribution.
ETA_MIN = ETA_ONE // 50
LOG_H_STEPS = 1024
LOG_H_LIMIT = 64 * LOG_H_STEPS
# Relative difference below which paces are too close for rounded logarithms, which err by 1e-14.
DOUBT = 1e-6


@dataclass(frozen=True)
class Side:
    """One side's distribution at a position: p^s, quantized, and log h^s in 1/1024 nats."""

    wire: WireDistribution
    log_h: int


def fixed_log_h(log_h: float) -> int:
    """log h^s as the wire carries it, clamped to its range."""
    return max(-LOG_H_LIMIT, min(LOG_H_LIMIT, round(log_h * LOG_H_STEPS)))


def device_weight(device_log_h: int, cloud_log_h: int) -> int:
    """eta = h^d / (h^d + h^c) in 1/65536 steps, at least `ETA_MIN`.

    Only a device with the lowest log h, which has no say itself, may weigh less.
    """
    difference = (cloud_log_h - device_log_h) / LOG_H_STEPS
    least = ETA_MIN if device_log_h > -LOG_H_LIMIT else 0
    return max(least, round(ETA_ONE / (1.0 + noise.exp(difference))))


def mixture(device: Side, cloud: Side) -> tuple[Ids, Ids]:
    """Ids [n] and integer weights [n] of p_t: eta q^d S^c + (65536 - eta) q^c S^d.

    With totals of at most 2^17 every weight stays below 2^50, exact in int64 and in float64.
    """
    own, other = factors(device, cloud)
    ids = np.sort(np.concatenate([device.wire.ids, cloud.wire.ids]))  # faster than `union1d`
    ids = ids[np.concatenate([[True], ids[1:] > ids[:-1]])]
    weights = own * device.wire.dense(ids[-1] + 1).take(ids)
    weights += other * cloud.wire.dense(ids[-1] + 1).take(ids)
    kept = weights > 0
    return ids[kept], weights[kept]


def factors(device: Side, cloud: Side) -> tuple[int, int]:
    """The factors of a token's two weights in the mixture: eta S^c, (65536 - eta) S^d."""
    eta = device_weight(device.log_h, cloud.log_h)
    return eta * cloud.wire.total, (ETA_ONE - eta) * device.wire.total


def choose(ids: Ids, weights: Ids, sampling: Sampling, position: int, lane: int = 0) -> int:
    """x_t = argmax_v log w_v + T G_t(v) over the tokens truncation keeps, ties to the lowest id.

    Distributed as the tempered weights (Gumbel-max); at T = 0 it is their argmax. The noise of
    different lanes is independent.
    """
    ids, weights = truncated(ids, weights, sampling)
    close = leading(paces(ids, weights, sampling, position, lane))
    return first(ids[close], weights[close], sampling, position, lane)


def paces(ids: Ids, weights: Ids, sampling: Sampling, position: int, lane: int = 0) -> Floats:
    """w / (-log u)^T, float64 [n], whose logarithms are the scores: the largest is the choice.

    Computed with the platform's logarithm and power: fast, but the last digits may differ.
    """
    run = weights.astype(np.float64)
    if sampling.temperature > 0.0:
        u = noise.uniform(sampling.seed, stream(sampling, lane), position, ids)
        run /= (-np.log(u)) ** sampling.temperature
    return run


def leading(run: Floats) -> Ids:
    """Indices where the largest pace may be: [k], usually one."""
    return np.flatnonzero(run >= run.max() * (1.0 - DOUBT))


def first(ids: Ids, weights: Ids, sampling: Sampling, position: int, lane: int = 0) -> int:
    """The choice among rising ids by portable logarithms, the same bits everywhere; slow."""
    if len(ids) == 1:
        return int(ids[0])
    if sampling.temperature == 0.0:
        return int(ids[np.argmax(weights)])
    gumbel = noise.gumbel(sampling.seed, stream(sampling, lane), position, ids)
    scores = noise.log(weights.astype(np.float64)) + sampling.temperature * gumbel
    return int(ids[np.argmax(scores)])


def stream(sampling: Sampling, lane: int) -> int:
    """The noise stream of one of several independent uses in the same answer."""
    return sampling.stream + (lane << STREAM_BITS)


def total_variation(one: Side, other: Side) -> float:
    """TV distance between two sides, 0 to 1: one minus the sum of min(p, q)."""
    p = one.wire.weights / one.wire.total
    size = max(one.wire.ids[-1], other.wire.ids[-1]) + 1
    q = other.wire.dense(size).take(one.wire.ids) / other.wire.total
    return max(0.0, 1.0 - float(np.minimum(p, q).sum()))


def draft(side: Side, sampling: Sampling, position: int, lane: int = 0) -> int:
    """The token a side would choose alone."""
    return choose(side.wire.ids, side.wire.weights, sampling, position, lane)


def target(device: Side, cloud: Side, sampling: Sampling, position: int) -> int:
    """The token both sides commit."""
    return choose(*mixture(device, cloud), sampling, position)


@dataclass(frozen=True, eq=False)
class Race:
    """The race of a side's tokens at a position: `paces` float64 [n] of its ids, and the `best`."""

    side: Side
    paces: Floats
    best: float

    @classmethod
    def run(cls, side: Side, sampling: Sampling, position: int) -> Race:
        assert not sampling.truncates
        run = paces(side.wire.ids, side.wire.weights, sampling, position)
        return cls(side, run, float(run.max()))

    def reaching(self, pace: float) -> Ids:
        """The ids of the tokens with at least this pace."""
        return self.side.wire.ids[self.paces >= pace]


def raced_draft(race: Race, sampling: Sampling, position: int) -> int:
    """The token a side would choose alone, as `draft` finds it."""
    wire, close = race.side.wire, leading(race.paces)
    return first(wire.ids[close], wire.weights[close], sampling, position)


def raced_target(device: Race, cloud: Race, sampling: Sampling, position: int) -> int:
    """The token both sides commit, as `target` finds it."""
    own, other = factors(device.side, cloud.side)
    # The winner's pace is at least the best of one side alone; half of it comes from one side.
    half = max(own * device.best, other * cloud.best) * (0.5 - DOUBT)
    ids = np.concatenate(
        [
            device.reaching(half / own if own else math.inf),
            cloud.reaching(half / other if other else math.inf),
        ]
    )
    one, two = device.side.wire, cloud.side.wire
    run = own * one.at(ids, device.paces) + other * two.at(ids, cloud.paces)
    close = np.array(sorted(set(ids[leading(run)].tolist())))
    weights = own * one.at(close, one.weights) + other * two.at(close, two.weights)
    return first(close, weights, sampling, position)
