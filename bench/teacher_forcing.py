"""What each system makes of a window of text, teacher-forced.

Every figure is a likelihood of the text's own tokens under full distributions: nothing is cut to
what the wire would keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench.wikitext import Window
from dragon.model import LanguageModel
from dragon.tokenizer import Tokenizer

CONTEXT_TOKENS = 256
"""What concatenated passages may take (section 7.3 of the paper)."""
_LOGITS = 1 << 25  # numbers in the output of one forward

Outcome = dict[tuple[str, int], float]
"""Log likelihood of a window's scored tokens, nats, by system and passages a side."""


@dataclass(frozen=True)
class Prefix:
    """What stands before the text in one row; the first `rounded` tokens' KV in bfloat16."""

    tokens: tuple[int, ...] = ()
    rounded: int = 0


class Scorer:
    """Log probabilities of a window's target tokens under prefixes, nats."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def score(self, prefixes: Sequence[Prefix], window: Window) -> dict[Prefix, torch.Tensor]:
        """float64 [tokens] a prefix."""
        unique = list(dict.fromkeys(prefixes))
        at_once = max(1, _LOGITS // (len(window.target) * self._model.vocab_size))
        found: dict[Prefix, torch.Tensor] = {}
        for start in range(0, len(unique), at_once):
            block = unique[start : start + at_once]
            found.update(zip(block, self._forward(block, window), strict=True))
        return found

    @torch.inference_mode()
    def _forward(self, prefixes: Sequence[Prefix], window: Window) -> torch.Tensor:
        slots = self._model.cache.acquire(len(prefixes))
        assert slots is not None
        for slot, prefix in zip(slots, prefixes, strict=True):
            self._prefill(slot, prefix)
        fed = torch.tensor([*window.query, *window.target[:-1]]).expand(len(prefixes), -1)
        starts = [len(prefix.tokens) for prefix in prefixes]
        logits = self._model.forward(slots, starts, fed, len(window.target))
        self._model.cache.release(slots)
        wanted = torch.tensor(window.target).expand(len(prefixes), -1)[..., None]
        return (logits.gather(-1, wanted)[..., 0] - logits.logsumexp(-1)).double()

    def _prefill(self, slot: int, prefix: Prefix) -> None:
        end = prefix.rounded
        if end:
            self._model.forward([slot], [0], torch.tensor([prefix.tokens[:end]]), 1)
            for layer in self._model.cache.layers:
                for kept in (layer.keys[slot, :, :end], layer.values[slot, :, :end]):
                    kept.copy_(kept.bfloat16())
        if end < len(prefix.tokens):
            self._model.forward([slot], [end], torch.tensor([prefix.tokens[end:]]), 1)


@dataclass(frozen=True)
class Case:
    """A window, and its passages, nearest first: their tokens and relevance in nats."""

    window: Window
    passages: tuple[tuple[int, ...], ...]
    relevance: tuple[float, ...]


class Systems:
    """The systems' log probabilities of a window, with k passages a side."""

    def __init__(self, scorer: Scorer, tokenizer: Tokenizer, counts: Sequence[int]) -> None:
        self._scorer = scorer
        self._before = tuple(tokenizer.document_row("", raw=False))
        self._between = tuple(tokenizer.encode("\n\n"))
        self._bare = Prefix(tuple(tokenizer.bare_row(raw=True)))
        self._counts = counts

    def predict(self, case: Case) -> Outcome:
        """What each system makes of the window."""
        rows = [self._prefix(passage) for passage in case.passages]
        together = {
            (name, k): prefix
            for k in self._counts
            if k
            for name, prefix in self._concatenated(case.passages, k).items()
        }
        prefixes = [self._bare, *rows, *together.values()]
        scores = self._scorer.score(prefixes, case.window)
        scored = torch.tensor(case.window.scored)
        result = {("none", 0): float(scores[self._bare][scored].sum())}
        result |= {key: float(scores[p][scored].sum()) for key, p in together.items()}
        for k in filter(None, self._counts):
            log_p = torch.stack([scores[row][scored] for row in rows[: 2 * k]])
            result |= {(name, k): v for name, v in mixed(log_p, case.relevance[: 2 * k]).items()}
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


def mixed(log_p: torch.Tensor, relevance: Sequence[float]) -> dict[str, float]:
    """Log likelihood of tokens under output aggregation, nats.

    `log_p` float64 [2k, tokens] and `relevance` [2k] are of the cloud's k rows, then the device's.
    """
    weights = torch.tensor(relevance, dtype=torch.float64).view(2, -1)
    log_eta = torch.log_softmax(weights.logsumexp(1), 0)
    rows = torch.log_softmax(weights, 1)[..., None] + log_p.view(2, weights.shape[1], -1)
    sides = rows.logsumexp(1)
    tokenwise = float((log_eta[:, None] + sides).logsumexp(0).sum())
    sequencewise = float((log_eta + sides.sum(1)).logsumexp(0))
    return {"DRAGON": tokenwise, "DRDG/TW": tokenwise, "DRDG/SW": sequencewise}
