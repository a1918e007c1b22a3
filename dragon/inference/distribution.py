"""A side's full distribution: it describes tokens, and never chooses them.

Log-probabilities of an answer's tokens are those of eta p^device + (1 - eta) p^cloud at temperature
1. The device's own distribution is complete, the cloud's as received, cut to its nucleus. So every
token has a value, and no request is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from dragon.protocol.state import Settled
from dragon.sampling.mixture import ETA_ONE, Side, device_weight, total_variation

# Nats that stand for log 0, which JSON cannot represent: OpenAI's value for what is very unlikely.
LOWEST = -9999.0
MAX_TOP = 20  # alternatives


@dataclass(frozen=True, eq=False)
class FullDistribution:
    """Log-probabilities before the cut, at temperature 1, float32: of rows [rows, V], mixed [V].

    `log_weights` float32 [rows] are the logarithms of the rows' weights in the mixture.
    """

    rows: torch.Tensor
    log_weights: torch.Tensor
    mixed: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, weights: torch.Tensor) -> FullDistribution:
        """From logits float32 [rows, V] and the rows' weights float64 [rows], which sum to 1."""
        rows = torch.log_softmax(logits, -1).clamp(min=LOWEST)
        log_weights = weights.log().clamp(min=LOWEST).to(rows.dtype)
        return cls(rows, log_weights, torch.logsumexp(rows + log_weights[:, None], 0))

    def shares(self, token: int) -> list[float]:
        """P(d | token) = softmax(R)_d p(token | d) / p^s(token): the share of each row."""
        shares: list[float] = torch.softmax(self.rows[:, token] + self.log_weights, 0).tolist()
        return shares


@dataclass(frozen=True)
class DetailedSide(Side):
    """A side's distribution with the full one that it was cut from, which stays on its side."""

    full: FullDistribution = field(compare=False)


def full_of(side: Side) -> FullDistribution:
    """The full distribution of a side; only for a decoder that was opened as `detailed`."""
    assert isinstance(side, DetailedSide), "details were not asked for when this was decoded"
    return side.full


@dataclass(frozen=True)
class Estimated:
    """A token in the mixture: its log-probability, the likeliest tokens, and the cloud's share."""

    logprob: float
    top: tuple[tuple[int, float], ...]
    cloud: float


def alone(full: FullDistribution, token: int, top: int) -> Estimated:
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
