"""The likelihood of a window of text under each system, teacher-forced.

Every figure is a likelihood of the text's own tokens under full distributions: nothing is cut to
what the wire would keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragon.inference.backends.backend import Backend
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.calibration import Prefix, Rows, Window, score

CONTEXT_TOKENS = 256
"""The most tokens of concatenated passages (DRAGON, arXiv 2504.11197, section 7.3)."""

SIDES = ("rows/cloud", "rows/device")
"""One side's passages, a row each, without the other side."""

Outcome = dict[tuple[str, int], float]
"""Log likelihood of a window's scored tokens, nats, by system and passages a side."""


@dataclass(frozen=True)
class Case:
    """A window, and the tokens of its passages, nearest first.

    `cosines` float64 [passages, 1] are those with the query; `rescored` float64 [passages, tokens]
    is relevance, nats, as the text grows.
    """

    window: Window
    passages: tuple[tuple[int, ...], ...]
    cosines: torch.Tensor
    rescored: torch.Tensor | None = None


class Systems:
    """The systems' log probabilities of a window, with k passages a side."""

    def __init__(self, model: Backend, tokenizer: Tokenizer, counts: Sequence[int]) -> None:
        self._model = model
        # Plain text after plain text: the prefix of a chat would cost more than passages gain.
        self._before = tuple(tokenizer.bare_row(raw=True))
        self._between = tuple(tokenizer.encode("\n\n"))
        self._bare = Prefix(self._before)
        self._counts = counts

    def rows(self, case: Case) -> Rows:
        """The rows of all passages, each alone."""
        prefixes = [self._prefix(passage) for passage in case.passages]
        scores = score(self._model, prefixes, case.window)
        scored = torch.tensor(case.window.scored)
        log_p = torch.stack([scores[prefix][scored] for prefix in prefixes])
        return Rows(log_p, case.cosines[:, 0])

    def predict(self, case: Case, slopes: Sequence[float]) -> Outcome:
        """The log likelihood of the window under each system.

        Rows are weighted with each slope, in nats per unit of cosine; the first is the default.
        """
        rows = [self._prefix(passage) for passage in case.passages]
        together = {
            (name, k): prefix
            for k in self._counts
            if k
            for name, prefix in self._concatenated(case.passages, k).items()
        }
        prefixes = [self._bare, *rows, *together.values()]
        scores = score(self._model, prefixes, case.window)
        scored = torch.tensor(case.window.scored)
        result = {("none", 0): float(scores[self._bare][scored].sum())}
        result |= {key: float(scores[p][scored].sum()) for key, p in together.items()}
        for k in filter(None, self._counts):
            log_p = torch.stack([scores[row][scored] for row in rows[: 2 * k]])
            cosines = case.cosines[: 2 * k]
            usual, *others = slopes
            result["DRAGON", k] = result["DRDG/TW", k] = tokenwise(log_p, usual * cosines)
            result["DRDG/SW", k] = sequencewise(log_p, usual * cosines)
            for name, side in zip(SIDES, _sides(log_p, usual * cosines)[0], strict=True):
                result[name, k] = float(side.sum())
            for slope in others:
                result[f"DRAGON/{slope:g}", k] = tokenwise(log_p, slope * cosines)
            if case.rescored is not None:
                result["DRAGON/rescored", k] = tokenwise(log_p, case.rescored[: 2 * k, scored])
        return result

    def _concatenated(self, passages: Sequence[tuple[int, ...]], k: int) -> dict[str, Prefix]:
        cloud, device, both = passages[:k], passages[k : 2 * k], passages[: 2 * k]
        sent = len(self._before) + min(CONTEXT_TOKENS, sum(map(len, cloud)))
        text = self._prefix(*both)
        return {
            "CRCG/device": self._prefix(*device),
            "CRCG/cloud": self._prefix(*cloud),
            "DRCG/Text": text,
            "DRCG/KV": Prefix(text.tokens, sent),
        }

    def _prefix(self, *passages: tuple[int, ...]) -> Prefix:
        tokens = [token for passage in passages for token in passage][:CONTEXT_TOKENS]
        return Prefix((*self._before, *tokens, *self._between))


def tokenwise(log_p: torch.Tensor, relevance: torch.Tensor) -> float:
    """Log likelihood of tokens, nats, each from the mixture of both sides.

    `log_p` float64 [2k, tokens] and `relevance` float64 [2k, tokens or 1] are of the cloud's k
    rows, then the device's.
    """
    sides, log_eta = _sides(log_p, relevance)
    return float((log_eta + sides).logsumexp(0).sum())


def sequencewise(log_p: torch.Tensor, relevance: torch.Tensor) -> float:
    """Log likelihood of the tokens as one sequence, of one side or the other, nats."""
    sides, log_eta = _sides(log_p, relevance)
    return float((log_eta[:, 0] + sides.sum(1)).logsumexp(0))


def _sides(log_p: torch.Tensor, relevance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log p^s float64 [2, tokens] and log eta^s float64 [2, tokens or 1]."""
    sides = []
    log_h = []
    for rows, nats in zip(log_p.chunk(2), relevance.chunk(2), strict=True):
        sides.append((torch.log_softmax(nats, 0) + rows).logsumexp(0))
        log_h.append(nats.logsumexp(0))
    return torch.stack(sides), torch.log_softmax(torch.stack(log_h), 0)
