"""What is told of a token once both sides have taken it: how likely it was, and who said it.

All of it is of the full mixture at temperature 1, eta p^device + (1 - eta) p^cloud before any cut.
The device has its own full distribution; the cloud sends its likeliest tokens. A token outside of
them is at most as likely there as the last of them, which bounds it in the mixture: the device asks
only for those that may still be among the likeliest of both (the threshold algorithm of Fagin,
Lotem and Naor 2003), and the answer is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragon.inference.distribution import LOWEST, FullDistribution, full_of
from dragon.protocol.committed_text import Settled
from dragon.sampling.mixture import ETA_ONE, device_weight, total_variation

MAX_TOP = 20
# Of one question, so that no frame is long.
MAX_ASKED = 2048


@dataclass(frozen=True)
class CloudDetail:
    """From the cloud, after it has committed a token: what its full distribution says of it.

    `shares` is P(d | token) of each of its rows; `top` its likeliest tokens and their
    log-probabilities, the likeliest first.
    """

    position: int
    checksum: int
    logprob: float
    shares: tuple[float, ...]
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Question:
    """From the device: how likely are these tokens at a position, in the cloud?"""

    position: int
    checksum: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Values:
    """The answer, log-probabilities in the question's order; empty if they are not known any more.

    Every question gets one, and they come in the order of the questions.
    """

    position: int
    checksum: int
    logprobs: tuple[float, ...]


DetailMessage = CloudDetail | Question | Values


@dataclass(frozen=True)
class Estimated:
    """A token in the mixture: its log-probability, the likeliest tokens, and the cloud's share."""

    logprob: float
    top: tuple[tuple[int, float], ...]
    cloud: float


def cloud_detail(settled: Settled, top: int) -> CloudDetail:
    """What the cloud tells of a token that it has committed."""
    full = full_of(settled.own)
    return CloudDetail(
        settled.position,
        settled.checksum,
        float(full.mixed[settled.token]),
        tuple(full.shares(settled.token)),
        likeliest(full.mixed, top),
    )


def alone(full: FullDistribution, token: int, top: int) -> Estimated:
    """A token that one side has written alone."""
    return Estimated(float(full.mixed[token]), likeliest(full.mixed, top), 0.0)


class Mixture:
    """The device's view of one position: its own distribution, and what it knows of the cloud's."""

    def __init__(self, settled: Settled, detail: CloudDetail, top: int) -> None:
        assert settled.remote is not None
        self._device = full_of(settled.own).mixed
        self._token = settled.token
        self._top = top
        eta = device_weight(settled.own.log_h, settled.remote.log_h) / ETA_ONE
        self._log_eta, self._log_rest = _log(eta), _log(1.0 - eta)
        self._known: dict[int, float] = dict(detail.top)
        self._known[self._token] = detail.logprob
        # No other token is likelier in the cloud.
        self._bound = min((value for _, value in detail.top), default=0.0)

    def learn(self, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        """The cloud's log-probabilities of some more tokens."""
        self._known |= zip(tokens, logprobs, strict=True)

    def in_doubt(self) -> tuple[int, ...]:
        """Tokens that may be among the likeliest; the cloud is to be asked for them."""
        if not self._top:
            return ()
        ids, values = self._mixed()
        kth = torch.topk(values, min(self._top, len(values))).values[-1]
        bounds = torch.logaddexp(
            self._device + self._log_eta, torch.tensor(self._bound + self._log_rest)
        )
        bounds[ids] = -math.inf
        highest, order = torch.topk(bounds, min(MAX_ASKED, len(bounds)))
        return tuple(order[highest >= kth].tolist())

    def estimate(self) -> Estimated:
        """What is known by now; exact when nothing is in doubt."""
        ids, values = self._mixed()
        best, order = torch.topk(values, min(self._top, len(values)))
        top = tuple(zip(ids[order].tolist(), best.tolist(), strict=True))
        logprob = float(values[ids == self._token])
        cloud = self._known[self._token] + self._log_rest - logprob
        return Estimated(logprob, top, math.exp(min(0.0, cloud)))

    def _mixed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens known in both sides and their log-probabilities in the mixture."""
        ids = torch.tensor(list(self._known), dtype=torch.int64)
        cloud = torch.tensor(list(self._known.values()), dtype=torch.float32)
        return ids, torch.logaddexp(self._device[ids] + self._log_eta, cloud + self._log_rest)


def likeliest(logprobs: torch.Tensor, top: int) -> tuple[tuple[int, float], ...]:
    """The likeliest tokens and their log-probabilities, of float32 [V]."""
    values, ids = torch.topk(logprobs, min(top, len(logprobs)))
    return tuple(zip(ids.tolist(), values.tolist(), strict=True))


def distance(settled: Settled) -> float | None:
    """The total variation between the two sides as they were mixed, 0 to 1."""
    return None if settled.remote is None else total_variation(settled.own, settled.remote)


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0.0 else LOWEST
