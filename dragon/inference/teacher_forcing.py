"""What a model makes of a given text in rows of different beginnings, teacher-forced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragon.inference.backends.backend import Backend

_LOGITS = 1 << 25  # numbers in the output of one forward


@dataclass(frozen=True)
class Window:
    """Tokens of the text: the query, what follows it, and which of the latter are scored."""

    query: tuple[int, ...]
    target: tuple[int, ...]
    scored: tuple[bool, ...]


@dataclass(frozen=True)
class Prefix:
    """What stands before the text in one row; the first `rounded` tokens' KV as it is sent."""

    tokens: tuple[int, ...] = ()
    rounded: int = 0


class Scorer:
    """Log probabilities of a window's target tokens under prefixes, nats.

    The model has to be `full`, and to have room for a prefix with the window.
    """

    def __init__(self, model: Backend) -> None:
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
        longest = max(len(prefix.tokens) for prefix in prefixes)
        positions = longest + len(window.query) + len(window.target)
        slots = self._model.cache.acquire(len(prefixes), positions)
        assert slots is not None
        self._model.begin(slots, adapted=False)
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
            assert self._model.kv is not None
            self._model.feed([slot], [0], torch.tensor([prefix.tokens[:end]]))
            sent = self._model.kv.read(slot, end).pack()
            self._model.kv.write(slot, prefix.tokens[:end], sent)
        if end < len(prefix.tokens):
            self._model.forward([slot], [end], torch.tensor([prefix.tokens[end:]]), 1)
