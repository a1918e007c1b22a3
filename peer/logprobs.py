"""What the cloud tells of the tokens it has committed, and answers about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dragon.inference.distribution import full_of
from dragon.inference.logprobs import CloudDetail, Question, Values, cloud_detail
from dragon.protocol.committed_text import Settled

# Of full distributions kept for questions, in one answer; the oldest go first.
_KEPT_BYTES = 64 << 20


class CloudDetails:
    """Of one answer. `top` of the likeliest tokens are told; with none, nothing is kept."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._kept: dict[tuple[int, int], torch.Tensor] = {}

    def of(self, settled: Sequence[Settled]) -> Iterator[CloudDetail]:
        """What is told of tokens just committed."""
        for token in settled:
            if self._top:
                mixed = full_of(token.own).mixed
                self._kept[token.position, token.checksum] = mixed
                if len(self._kept) * mixed.nbytes > _KEPT_BYTES:
                    del self._kept[next(iter(self._kept))]
            yield cloud_detail(token, self._top)

    def answer(self, question: Question) -> Values:
        """How likely the tokens asked for are; nothing where that is not kept any more."""
        mixed = self._kept.get((question.position, question.checksum))
        values = () if mixed is None else tuple(mixed[list(question.tokens)].tolist())
        return Values(question.position, question.checksum, values)
