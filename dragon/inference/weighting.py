"""The weights of a side's rows, position by position.

Relevance is that of the question, or re-scored on the running text at every position t with t mod m
= 0, for t to t + m - 1 (the dynamic weights of DRAGON, arXiv 2504.11197). Either way it is a
function of the text before t alone, and rolls back with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dragon.sampling.mixture import LOG_H_LIMIT, fixed_log_h


@dataclass(frozen=True)
class Rescoring:
    """Re-scores rows every `every` positions; `relevance` maps the text so far to nats."""

    every: int
    relevance: Callable[[Sequence[int]], Sequence[float]]


@dataclass(frozen=True)
class Weights:
    """softmax of relevance, float64 [rows], and log h^s as the wire carries it."""

    rows: torch.Tensor
    log_h: int

    @classmethod
    def of(cls, relevance: Sequence[float]) -> Weights:
        """From the relevance of each row, nats."""
        nats = torch.tensor(relevance, dtype=torch.float64)
        return cls(torch.softmax(nats, 0), fixed_log_h(float(torch.logsumexp(nats, 0))))

    def among(self, able: torch.Tensor) -> Weights:
        """The weights of the `able` rows alone, bool [rows]; if there are none, with no say."""
        rows = torch.where(able, self.rows, 0.0)
        kept = float(rows.sum())
        if kept == 0.0:
            return Weights(self.rows, -LOG_H_LIMIT)
        lost = fixed_log_h(math.log(min(1.0, kept)))
        return Weights(rows / kept, max(1 - LOG_H_LIMIT, self.log_h + lost))


def shared(weights: Sequence[float], passages: int) -> list[float]:
    """The weight of each passage, given those of the rows; passages in one row share its weight."""
    alike = max(1, passages // max(1, len(weights)))
    return [weight / alike for weight in weights for _ in range(alike)]


class Weighting:
    """The weights of a side's rows along one text. `at` re-scores when first needed."""

    def __init__(self, relevance: Sequence[float], rescoring: Rescoring | None) -> None:
        self.first = Weights.of(relevance)
        self._rescoring = rescoring
        self._text: list[int] = []
        self._rescored: dict[int, Weights] = {}  # by the position they apply from

    @property
    def length(self) -> int:
        return len(self._text)

    def text(self, position: int) -> Sequence[int]:
        return self._text[:position]

    def follow(self, keep: int, tokens: Sequence[int]) -> None:
        """The text is now its first `keep` tokens followed by `tokens`."""
        self._text[keep:] = tokens
        for position in [p for p in self._rescored if p > keep]:
            del self._rescored[position]

    def at(self, position: int) -> Weights:
        """The weights of the distribution after the first `position` tokens."""
        if self._rescoring is None or position < self._rescoring.every:
            return self.first
        since = position - position % self._rescoring.every
        if since not in self._rescored:
            self._rescored[since] = Weights.of(self._rescoring.relevance(self._text[:since]))
        return self._rescored[since]
