"""How likely a whole text is under one side: sequencewise aggregation weighs answers by it."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class SequenceLikelihood:
    """log P^s(y) = log sum over d of softmax(R)_d times the product over t of p(y_t | d, y_<t).

    RAG-Sequence (Lewis et al. 2020, equation 1) on full distributions, in float64; R, the relevance
    of the rows in nats, is that of the prompt. `add` extends the text, and `value` is the
    log-likelihood of what it has so far.
    """

    def __init__(self, relevance: Sequence[float]) -> None:
        self._log_weights = torch.log_softmax(torch.tensor(relevance, dtype=torch.float64), 0)
        self._length = 0
        self._sums = torch.zeros_like(self._log_weights)  # log p(y_t | d, y_<t), summed per row
        self._prompt: torch.Tensor | None = None
        self._last: torch.Tensor | None = None
        self.value = 0.0

    def begin(self, logits: torch.Tensor) -> None:
        """Set the logits float32 [rows, V] after the prompt, which every text continues."""
        self._prompt = logits

    def add(self, keep: int, tokens: Sequence[int], steps: Sequence[torch.Tensor]) -> None:
        """Add `tokens` after the first `keep`: the whole text so far, or none (another text).

        `steps` holds the logits float32 [rows, V] after each of the tokens; those after the last
        one may be missing if the text ends.
        """
        assert keep in (0, self._length), "a text is scored from its beginning on"
        before = self._last if keep else self._prompt
        assert before is not None, "nothing may be added where the text has ended"
        after = (before, *steps)
        sums = self._sums.clone() if keep else torch.zeros_like(self._sums)
        for token, logits in zip(tokens, after, strict=False):
            exact = logits.to(torch.float64)
            sums += exact[:, token] - torch.logsumexp(exact, -1)
        self._length, self._sums = keep + len(tokens), sums
        # A copy: a view would keep the logits of all steps in memory.
        self._last = after[-1].clone() if len(steps) == len(tokens) else None
        self.value = min(0.0, float(torch.logsumexp(self._log_weights + sums, 0)))
