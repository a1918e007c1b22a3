"""Logit bias and penalties: what a request adds to the model's logits.

They act on every row of either side, before anything is mixed or cut: a side's
distribution, its drafts and the mixture then all follow from the adjusted rows, nothing else needs
to know of them, and a token with a bias of -100 costs the nucleus no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch

from dragon.sampling.params import Sampling


class Adjustment:
    """z_v + bias_v - c_v frequency - (c_v > 0) presence, as OpenAI's API reference defines it.

    c_v counts the token in the answer so far: in the text that the logits are conditioned on, which
    for a draft includes drafts that are not committed yet.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._biased = torch.tensor([token for token, _ in sampling.logit_bias], dtype=torch.int64)
        self._bias = torch.tensor([bias for _, bias in sampling.logit_bias], dtype=torch.float32)
        self._presence = sampling.presence_penalty
        self._frequency = sampling.frequency_penalty

    @classmethod
    def asked(cls, sampling: Sampling) -> Self | None:
        """What a request asks for, None where that changes nothing."""
        return cls(sampling) if sampling.adjusts else None

    def of(self, logits: torch.Tensor, text: Sequence[int]) -> torch.Tensor:
        """Adjusted logits, float32 [rows, V], after the answer's first tokens, `text`."""
        adjusted = logits.clone()
        adjusted[:, self._biased] += self._bias
        if text and (self._presence or self._frequency):
            said, counts = np.unique(text, return_counts=True)
            penalties = self._presence + self._frequency * counts.astype(np.float32)
            adjusted[:, torch.from_numpy(said)] -= torch.from_numpy(penalties.astype(np.float32))
        return adjusted
