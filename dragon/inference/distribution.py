"""A side's full distribution: it describes tokens, and never chooses them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from dragon.sampling.mixture import Side

# Nats that stand for log 0, which JSON cannot represent: OpenAI's value for what is very unlikely.
LOWEST = -9999.0


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
