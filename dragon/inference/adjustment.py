"""A request's changes to the model's logits: bias, penalties, when an answer may end.

It adjusts every row on either side before anything is mixed or cut, so a side's distribution, its
drafts and the mixture all follow from the adjusted rows, nothing else needs to know about it, and a
token with a bias of -100 takes no room in the nucleus.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Self

import numpy as np
import torch

from dragon.inference.grammar import Mask
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Sampling


class Adjustment:
    """r(z_v) + bias_v - c_v frequency - (c_v > 0) presence, as OpenAI and vLLM define it.

    c_v counts the token in the answer so far: in the text that the logits are conditioned on, which
    for a draft includes uncommitted drafts. r divides positive logits by the repetition penalty and
    multiplies negative ones by it, for tokens of the answer and of the conversation as this side
    has it; passages do not count. End tokens are excluded before the answer has `min_tokens`, as is
    everything that the grammar's `mask` does not allow. A row that names no allowed token counts
    all of them as equally likely.
    """

    def __init__(
        self,
        sampling: Sampling,
        conversation: Sequence[int],
        ends: Collection[int],
        mask: Mask | None = None,
    ) -> None:
        self._biased = torch.tensor([token for token, _ in sampling.logit_bias], dtype=torch.int64)
        self._bias = torch.tensor([bias for _, bias in sampling.logit_bias], dtype=torch.float32)
        self._presence = sampling.presence_penalty
        self._frequency = sampling.frequency_penalty
        self._repetition = sampling.repetition_penalty
        self._asked = np.unique(np.array(conversation, dtype=np.int64))
        self._ends = torch.tensor(sorted(ends), dtype=torch.int64)
        self._least = sampling.min_tokens
        self._mask = mask
        self.quotable = sampling.quotable
        self.masking_s = 0.0
        """Seconds that masks have taken so far."""

    @classmethod
    def asked(
        cls, sampling: Sampling, conversation: Sequence[int], tokenizer: Tokenizer
    ) -> Self | None:
        """The adjustment a request asks for; None if it changes nothing.

        Raises `InvalidRequestError` for an invalid grammar.
        """
        if not sampling.adjusts:
            return None
        mask = tokenizer.mask(sampling.grammar) if sampling.grammar else None
        return cls(sampling, conversation, tokenizer.end_ids, mask)

    def of(self, logits: torch.Tensor, text: Sequence[int]) -> torch.Tensor:
        """Adjusted logits, float32 [rows, V], after `text`, the answer's first tokens."""
        adjusted = logits.clone()
        said, counts = np.unique(np.array(text, dtype=np.int64), return_counts=True)
        if self._repetition != 1.0:
            seen = torch.from_numpy(np.union1d(self._asked, said))
            values = adjusted[:, seen]
            adjusted[:, seen] = torch.where(
                values > 0, values / self._repetition, values * self._repetition
            )
        adjusted[:, self._biased] += self._bias
        if self._presence or self._frequency:
            penalties = self._presence + self._frequency * counts.astype(np.float32)
            adjusted[:, torch.from_numpy(said)] -= torch.from_numpy(penalties.astype(np.float32))
        if len(text) < self._least:
            adjusted[:, self._ends] = -torch.inf
        if self._mask is not None:
            began = time.perf_counter()
            allowed = self._mask.allowed(text)
            self.masking_s += time.perf_counter() - began
            # Indexing with a mask takes seven times as long as `where`, and others wait for it.
            adjusted = torch.where(allowed, adjusted, -torch.inf)
            unsaid = torch.isneginf(adjusted.amax(-1))
            if unsaid.any():
                adjusted[unsaid] = torch.where(allowed, 0.0, -torch.inf)
        return adjusted
