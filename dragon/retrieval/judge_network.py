"""The network that reads a question with a passage, and judges whether each line answers.

One pass judges all lines of a passage (Provence, arXiv 2501.16214), so that a heading, a pronoun or
a neighbour is read with the line that needs it. The logits of the lines and a constant 0 for "none
of them" go through one softmax, so lines of different passages are directly comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

OUTSIDE = -1
"""The line number of tokens outside all lines: the question, a heading, an item's number."""

_SHARPNESS = 10.0


@dataclass(frozen=True)
class Encoded:
    """Tokens of a question and a passage; `segments` are 0 and 1, `lines` count from 0.

    A message alone, without a passage, has no lines.
    """

    tokens: Sequence[int]
    segments: Sequence[int]
    lines: Sequence[int]


@dataclass(frozen=True)
class Batch:
    """Padded rows, int64 [n, length] each; `mask` is 1 at tokens."""

    tokens: Tensor
    segments: Tensor
    lines: Tensor
    mask: Tensor

    @classmethod
    def of(cls, rows: Sequence[Encoded], padding: int = 0, multiple: int = 1) -> Batch:
        """Rows padded to the longest, rounded up to a multiple."""
        longest = max(len(row.tokens) for row in rows)
        length = longest + -longest % multiple
        tokens = torch.full((len(rows), length), padding)
        segments, mask = torch.zeros(2, len(rows), length, dtype=torch.int64)
        lines = torch.full((len(rows), length), OUTSIDE)
        for place, row in enumerate(rows):
            end = len(row.tokens)
            tokens[place, :end] = torch.tensor(row.tokens)
            segments[place, :end] = torch.tensor(row.segments)
            lines[place, :end] = torch.tensor(row.lines)
            mask[place, :end] = 1
        return cls(tokens, segments, lines, mask)

    def to(self, device: str) -> Batch:
        """The same batch on a device."""
        return Batch(*(each.to(device) for each in vars(self).values()))


class JudgeNetwork(nn.Module):
    """An encoder, a head for lines and a head for messages that need no document.

    A line is represented by the mean of its tokens, the mean of the question's, their product
    (whose sum is the cosine, which the encoder was trained to make informative) and the first
    token's state.
    """

    def __init__(self, encoder: nn.Module, width: int, *, typed: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.typed = typed  # whether the encoder takes token types
        self.mix = nn.Linear(4 * width, width)
        self.line = nn.Linear(width, 1)
        self.cosine = nn.Parameter(torch.tensor([_SHARPNESS, -_SHARPNESS / 2]))
        self.needless = nn.Linear(width, 1)

    def states(self, batch: Batch) -> Tensor:
        """The encoder's last hidden states, float [n, length, width]."""
        types = {"token_type_ids": batch.segments} if self.typed else {}
        made: Tensor = self.encoder(
            input_ids=batch.tokens, attention_mask=batch.mask, **types
        ).last_hidden_state
        return made

    def forward(self, batch: Batch) -> Tensor:
        """Logits of lines, float [n, lines]; minus infinity if a row has no such line."""
        states = self.states(batch)
        count = int(batch.lines.max()) + 1
        chosen = functional.one_hot(batch.lines + 1, count + 1)[..., 1:].to(states.dtype)
        sums = torch.einsum("ntl,ntd->nld", chosen, states)
        there = chosen.sum(1)
        said = functional.normalize(sums / there.clamp(min=1).unsqueeze(-1), dim=-1)
        question = (batch.mask * (1 - batch.segments)).unsqueeze(-1).to(states.dtype)
        asked = functional.normalize((states * question).sum(1) / question.sum(1), dim=-1)
        asked = asked.unsqueeze(1).expand_as(said)
        first = states[:, :1].expand_as(said)
        mixed = functional.gelu(self.mix(torch.cat((first, asked, said, asked * said), dim=-1)))
        logits = self.line(mixed).squeeze(-1)
        logits = logits + self.cosine[0] * (asked * said).sum(-1) + self.cosine[1]
        masked: Tensor = logits.masked_fill(there == 0, -torch.inf)
        return masked

    def needs_none(self, batch: Batch) -> Tensor:
        """Log-odds that a message needs no document, float [n]."""
        logits: Tensor = self.needless(self.states(batch)[:, 0]).squeeze(-1)
        return logits


def outcomes(logits: Tensor) -> Tensor:
    """Log-probabilities that none answers, then that each line does, float [n, 1 + lines]."""
    none = torch.zeros_like(logits[:, :1])
    return torch.cat((none, logits), dim=1).log_softmax(dim=1)
