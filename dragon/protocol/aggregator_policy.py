"""Chooses the side that aggregates the next token of Algorithm 1.

DRAGON, arXiv 2504.11197, section 5, with its formulas corrected.

Pure: no clock, no I/O. `l` is the side that aggregates, `r` the other one.

The closed form Z^l treats every token in isolation. It is exact if c_l <= c_r or a_l = 0 and
pessimistic otherwise, since buffered local drafts catch up after a stall; and it assumes that one
side aggregates for good. What has just been rejected says more: a remote side that must start again
needs the target half a round trip from now, and if it aggregates, its draft need not travel back.
`GREEDY` therefore simulates both choices from the queues as they are and takes the faster one.
In a simulation, one side aggregates all tokens after the next one, whichever is better. Simulations
that choose a side anew for each token lose up to 4 % to the better static side; these lose 2 %.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dragon.sampling.mixture import ETA_ONE, Side, device_weight
from dragon.sampling.noise import Floats
from dragon.sampling.role import Role

# Tokens per simulation and simulations per choice of `GREEDY`: more change no figure.
_DEPTH = 8
_PLAYS = 32
# Conditions are rounded to these steps, so that the cache finds earlier simulations: fractions of
# the slower decode delay, and of 1 for acceptances.
_TIME_STEPS = 20
_ACCEPT_STEPS = 20
# In time steps. A smaller gain may be rounding, and a hand-over is not free.
_LEAST_GAIN = 1
# A longer queue counts as this long: a side that far ahead does not delay the other.
_QUEUE_CAP = 8


class Schedule(StrEnum):
    """How to choose the aggregating side: by simulation, DRAGON's formula, or a baseline."""

    GREEDY = "greedy"
    PAPER = "paper"
    DEVICE = "device"
    CLOUD = "cloud"
    RANDOM = "random"


@dataclass(frozen=True)
class Conditions:
    """Decode delay per token of each side and round trip, seconds; expected acceptances, 0 to 1."""

    device_s: float
    cloud_s: float
    rtt_s: float
    accept_device: float
    accept_cloud: float


class Estimates(Protocol):
    """A side's estimates of both sides' speed, of the link and of acceptance."""

    def observe_acceptance(self, device: float, cloud: float) -> None:
        """Record how likely the drafts of a position were to be accepted, 0 to 1."""

    def conditions(self, role: Role) -> Conditions | None:
        """The conditions from `role`'s view; None until all of them were measured."""


@dataclass(frozen=True)
class Aggregated:
    """The aggregation just made: which drafts were accepted, and how many are left in each queue.

    The queues are the aggregator's: the drafts after the ones just judged, empty after a rejection.
    """

    device_accepted: bool
    cloud_accepted: bool
    device_queued: int
    cloud_queued: int


def latency(aggregator: Role, c: Conditions) -> float:
    """Z^l, seconds per token if `aggregator` is l for good (Eq. 7 corrected).

    a_r max(c_l, c_r) + (1 - a_r) max(c_l, c_r + rtt).
    """
    local, remote, _, accept = _seen_from(aggregator, c)
    accepted = max(local, remote)
    # Arranged so that equal sides have equal latencies to the last bit.
    return accepted + (1 - accept) * (max(local, remote + c.rtt_s) - accepted)


def delta_z(aggregator: Role, c: Conditions) -> float:
    """Z^l - Z^r in seconds, above 0 if the other side should aggregate (Eq. 8 corrected)."""
    return latency(aggregator, c) - latency(aggregator.other, c)


def expected_acceptance(device: Side, cloud: Side) -> tuple[float, float]:
    """The probabilities that Algorithm 1 accepts the device's and the cloud's draft (Eq. 5).

    With gamma = 1/2: alpha^s = (1 - eta^other delta) / 2 + sum p^s p_t / 2, where delta = 1 - sum
    min(p^d, p^c).
    """
    # Not `mixture.mixture`: that drops the tokens of a side without any weight.
    ids = np.union1d(device.wire.ids, cloud.wire.ids)
    own = device.wire.at(ids, device.wire.weights / device.wire.total)
    other = cloud.wire.at(ids, cloud.wire.weights / cloud.wire.total)
    eta = device_weight(device.log_h, cloud.log_h) / ETA_ONE
    target = eta * own + (1.0 - eta) * other
    delta = 1.0 - float(np.minimum(own, other).sum())
    return (
        0.5 * (1.0 - (1.0 - eta) * delta) + 0.5 * float(own @ target),
        0.5 * (1.0 - eta * delta) + 0.5 * float(other @ target),
    )


class Scheduler:
    """Chooses the aggregating side, token by token."""

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self._schedule = schedule
        self._chance = random.Random(seed)

    @property
    def first(self) -> Role:
        return Role.CLOUD if self._schedule is Schedule.CLOUD else Role.DEVICE

    def next(
        self, aggregator: Role, conditions: Conditions | None, last: Aggregated | None = None
    ) -> Role:
        """Choose who aggregates next; the same side while the conditions are unknown.

        `last` is what `aggregator` has just done. Without it `GREEDY` falls back on `PAPER`'s
        formula.
        """
        if self._schedule is Schedule.RANDOM:
            return self._chance.choice(list(Role))
        if self._schedule in (Schedule.DEVICE, Schedule.CLOUD) or conditions is None:
            return aggregator
        if self._schedule is Schedule.GREEDY and last is not None:
            switch = _gain(aggregator, conditions, last) > _LEAST_GAIN
        else:
            switch = delta_z(aggregator, conditions) > 0
        return aggregator.other if switch else aggregator


def _seen_from(aggregator: Role, c: Conditions) -> tuple[float, float, float, float]:
    """c_l, c_r, a_l, a_r."""
    if aggregator is Role.DEVICE:
        return c.device_s, c.cloud_s, c.accept_device, c.accept_cloud
    return c.cloud_s, c.device_s, c.accept_cloud, c.accept_device


def _gain(aggregator: Role, c: Conditions, last: Aggregated) -> float:
    """The time that switching saves over `_DEPTH` tokens, in time steps."""
    local, remote, accept_local, accept_remote = _seen_from(aggregator, c)
    unit = max(local, remote)
    if unit <= 0:
        return 0.0
    rejected = (not last.device_accepted, not last.cloud_accepted)
    queued = (min(last.device_queued, _QUEUE_CAP), min(last.cloud_queued, _QUEUE_CAP))
    if aggregator is Role.CLOUD:
        rejected, queued = rejected[::-1], queued[::-1]
    return _played_gain(
        (round(_TIME_STEPS * local / unit), round(_TIME_STEPS * remote / unit)),
        round(_TIME_STEPS * c.rtt_s / unit),
        (round(_ACCEPT_STEPS * accept_local), round(_ACCEPT_STEPS * accept_remote)),
        rejected,
        queued,
    )


@lru_cache(maxsize=1 << 14)
def _played_gain(
    decode: tuple[int, int],
    rtt: int,
    accept: tuple[int, int],
    rejected: tuple[bool, bool],
    queued: tuple[int, int],
) -> float:
    """`_gain` in steps of time and acceptance; index 0 is local, 1 remote, and now is time 0."""
    way = rtt / 2
    # When each side's next draft is, or was, decoded. An accepted side continues where it was: with
    # an empty queue it has just delivered a draft, else it counts as half-way through a step.
    begun = [decode[s] * (0.5 - queued[s] if queued[s] else 1.0) for s in (0, 1)]
    local = decode[0] if rejected[0] else begun[0]
    remote = decode[1] + way if rejected[1] else begun[1] - way
    c = np.array(decode, dtype=np.float64)
    accepted = np.array(accept) > _DRAWS * _ACCEPT_STEPS
    ready = np.array([local, remote])
    stay, switch = (
        min(_play(first, later, ready, c, way, accepted) for later in (0, 1)) for first in (0, 1)
    )
    return stay - switch


# Evenly spread over [0, 1)^(2 _DEPTH): a lattice of multiples of square roots of primes.
_PRIMES = np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53])
_DRAWS = (np.outer(np.arange(1, _PLAYS + 1), np.sqrt(_PRIMES)) % 1.0).reshape(_PLAYS, _DEPTH, 2)


def _play(
    first: int, later: int, ready: Floats, c: Floats, way: float, accepted: NDArray[np.bool_]
) -> float:
    """The time at which the last token is aggregated, averaged over simulations.

    Side `first` aggregates the first token and `later` all others. `ready` [2] is when each side's
    first draft is decoded, `accepted` [plays, tokens, 2] whether each draft is accepted.
    """
    known = np.tile([0.0, way], (len(accepted), 1))
    ready = np.tile(ready, (len(accepted), 1))
    side, now = first, known[:, 0]
    for accept in accepted.swapaxes(0, 1):
        # A side can aggregate once it knows the text so far and has both drafts.
        now = np.maximum(np.maximum(known[:, side], ready[:, side]), ready[:, 1 - side] + way)
        known = np.repeat(now[:, None] + way, 2, axis=1)
        known[:, side] = now
        ready = np.where(accept, ready, known) + c
        side = later
    return float(now.mean())
