"""Per-token log-probabilities in the mixture of both sides, from what the device holds.

They are those of eta p^device + (1 - eta) p^cloud at temperature 1: the device's own distribution
is complete, the cloud's as received, cut to its nucleus. So every token has a value, and no request
is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dragon.inference.distribution import LOWEST, FullDistribution, full_of
from dragon.protocol.state import Settled
from dragon.sampling.mixture import ETA_ONE, device_weight, total_variation

MAX_TOP = 20


@dataclass(frozen=True)
class Estimated:
    """A token in the mixture: its log-probability, the likeliest tokens, and the cloud's share."""

    logprob: float
    top: tuple[tuple[int, float], ...]
    cloud: float


def alone(full: FullDistribution, token: int, top: int) -> Estimated:
    """The estimate of a token that one side wrote alone."""
    return Estimated(float(full.mixed[token]), likeliest(full.mixed, top), 0.0)


def estimate(settled: Settled, top: int) -> Estimated:
    """The estimate of a token of the device's text, with its `top` likeliest alternatives."""
    full, token = full_of(settled.own), settled.token
    if settled.remote is None:
        return alone(full, token, top)
    eta = device_weight(settled.own.log_h, settled.remote.log_h) / ETA_ONE
    own = full.mixed + log(eta)
    wire = settled.remote.wire
    ids = torch.from_numpy(wire.ids)
    cloud = torch.from_numpy(wire.weights / wire.total).log() + log(1.0 - eta)
    mixed = own.clone()
    mixed[ids] = torch.logaddexp(own[ids], cloud.to(own.dtype))
    logprob = float(mixed[token])
    share = -math.expm1(min(0.0, float(own[token]) - logprob))
    return Estimated(logprob, likeliest(mixed, top), share)


def likeliest(logprobs: torch.Tensor, top: int) -> tuple[tuple[int, float], ...]:
    """The likeliest tokens and their log-probabilities, from float32 [V]."""
    values, ids = torch.topk(logprobs, min(top, len(logprobs)))
    return tuple(zip(ids.tolist(), values.clamp(min=LOWEST).tolist(), strict=True))


def distance(settled: Settled) -> float | None:
    """The total variation between the two sides as mixed, 0 to 1; None if there is one side."""
    return None if settled.remote is None else total_variation(settled.own, settled.remote)


def log(weight: float) -> float:
    """The natural logarithm of a weight; `LOWEST` for 0."""
    return math.log(weight) if weight > 0.0 else LOWEST
