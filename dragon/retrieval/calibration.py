"""Calibrates, on held-out text, how many nats a unit of cosine is worth to a model.

A model that continues a text has a row for each passage, with a weight of slope x cosine nats
(DRAGON, arXiv 2504.11197, section 4). If the slope is too high, one passage has all the weight,
whether or not it helps; at 0 all count alike. The best slope depends on how well the model reads
and on what the embedder's cosines mean, so it is calibrated for each model, on text that its owner
provides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import torch

from dragon.errors import ConfigurationError
from dragon.inference.backends.backend import Backend
from dragon.inference.profile import Calibration, Gain, Profile
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.prompt_rows import recent
from dragon.retrieval.relevance import SLOPE

SLOPES = (0.0, *(2.0 ** (n / 8) for n in range(-8, 48)))  # closer ones would predict alike
ROWS = 4  # passages of a window: two a side
WINDOWS = 16  # at most: each takes seconds, and another text would change the slope more
LEAST_WINDOWS = 8  # for a meaningful standard error
PASSAGE_WORDS = 64
_PASSAGE = re.compile(rf"(?:\s*\S+){{1,{PASSAGE_WORDS}}}")
_WINDOW = 4  # passages; the first half is the query
_LOGITS = 1 << 25  # numbers in the output of one forward

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Nats of a window's tokens, float64 [rows, tokens], and the rows' cosines, float64 [rows]."""

    log_p: torch.Tensor
    cosines: torch.Tensor


def log_likelihoods(windows: Sequence[Rows], slopes: Sequence[float]) -> torch.Tensor:
    """Nats of each window under the mixture of its rows: float64 [slopes, windows]."""
    steep = torch.tensor(slopes, dtype=torch.float64)[:, None]
    mixed = [
        (torch.log_softmax(steep * rows.cosines, 1)[..., None] + rows.log_p).logsumexp(1).sum(1)
        for rows in windows
    ]
    return torch.stack(mixed, 1)


def calibrated(windows: Sequence[Rows], embedder: str) -> Calibration:
    """The likeliest slope, or the default unless another gains over two standard errors."""
    slopes = [*SLOPES, SLOPE]
    found = log_likelihoods(windows, slopes)
    tokens = torch.tensor([rows.log_p.shape[1] for rows in windows], dtype=torch.float64)
    best = int(found.sum(1).argmax())
    gain = _gain(found[best] - found[-1], tokens)
    chosen = best if gain.nats > 2 * gain.stderr else len(slopes) - 1
    return Calibration(
        slope=slopes[chosen],
        embedder=embedder,
        windows=len(windows),
        tokens=int(tokens.sum()),
        over_uniform=_gain(found[chosen] - found[0], tokens),
        over_default=_gain(found[chosen] - found[-1], tokens),
    )


def _gain(nats: torch.Tensor, tokens: torch.Tensor) -> Gain:
    """The gain per token, from each window's, with the standard error of a ratio."""
    count, mean = len(nats), float(nats.sum() / tokens.sum())
    spread = float(((nats - mean * tokens) ** 2).sum()) * count / max(1, count - 1)
    return Gain(nats=mean, stderr=math.sqrt(spread) / float(tokens.sum()))


def calibrate(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    model: Backend,
    embedder: TextEmbedder,
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Calibration:
    """Calibrate a model on texts of the kind that it is to continue.

    `progress` is told how many windows are done. Raises `ConfigurationError` if the texts are too
    short, if the model cannot hold a window of them, or if it does not name the probabilities of
    all tokens.
    """
    if not model.full:
        raise ConfigurationError(
            "a model server names only the likeliest tokens: calibrate a model that DRAGON runs"
        )
    found = list[Rows]()
    cut = [_PASSAGE.findall(text) for text in texts]
    chosen = _windows(cut)
    for window, rows in _searched(chosen, list(chain(*cut)), tokenizer, embedder):
        longest = max(len(row.tokens) for row in rows)
        needed = longest + len(window.query) + len(window.target)
        if needed > model.context:
            raise ConfigurationError(
                f"to be calibrated, a model has to hold {needed} tokens; this one holds "
                f"{model.context}"
            )
        scores = score(model, list(rows), window)
        log_p = torch.stack([scores[prefix] for prefix in rows])
        found.append(Rows(log_p, torch.tensor(list(rows.values()), dtype=torch.float64)))
        progress(len(found), len(chosen))
    return calibrated(found, embedder.fingerprint)


def spread(windows: Sequence[T], count: int) -> list[T]:
    """At most `count` windows, evenly spread from the first to the last."""
    places = np.linspace(0, len(windows) - 1, min(count, len(windows)))
    return [windows[int(place)] for place in places]


def _windows(texts: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of the passages where windows begin, evenly spread over all that fit."""
    starts, first = list[int](), 0
    for passages in texts:
        starts += range(first, first + len(passages) - _WINDOW + 1, _WINDOW)
        first += len(passages)
    if len(starts) < LEAST_WINDOWS:
        words = LEAST_WINDOWS * _WINDOW * PASSAGE_WORDS
        raise ConfigurationError(f"the texts are too short to calibrate on: give {words:,} words")
    return spread(starts, WINDOWS)


def _searched(
    starts: Sequence[int], passages: Sequence[str], tokenizer: Tokenizer, embedder: TextEmbedder
) -> Iterator[tuple[Window, dict[Prefix, float]]]:
    """Each window, and the rows of other passages nearest to its query, with cosines."""
    vectors = embedder.embed(passages)
    for start in starts:
        middle, end = start + _WINDOW // 2, start + _WINDOW
        query = "".join(passages[start:middle]).strip()
        target = tuple(tokenizer.encode("".join(passages[middle:end])))
        cosines = vectors @ embedder.embed([recent(query)])[0]
        cosines[start:end] = -math.inf
        rows: dict[Prefix, float] = {}
        for place in np.argsort(-cosines):
            if cosines[place] == -math.inf:
                break
            row = tokenizer.document_row(passages[place].strip(), raw=True)
            rows.setdefault(Prefix(tuple(row)), float(cosines[place]))
            if len(rows) == ROWS:
                break
        yield Window(tuple(tokenizer.encode(query)), target, (True,) * len(target)), rows


def slope_of(profile: Profile | None, embedder: str) -> float:
    """The profile's slope if it was calibrated with this embedder, else the default."""
    found = profile.calibration if profile is not None else None
    return found.slope if found is not None and found.embedder == embedder else SLOPE


# Teacher forcing: how likely a given text is after different prefixes.


@dataclass(frozen=True)
class Window:
    """Tokens of a text: a query, the target after it, and which tokens of the target to score."""

    query: tuple[int, ...]
    target: tuple[int, ...]
    scored: tuple[bool, ...]


@dataclass(frozen=True)
class Prefix:
    """A row's tokens before the window; the KV of the first `rounded` is rounded as when sent."""

    tokens: tuple[int, ...] = ()
    rounded: int = 0


def score(model: Backend, prefixes: Sequence[Prefix], window: Window) -> dict[Prefix, torch.Tensor]:
    """Nats of a window's target after each prefix, float64 [tokens], by a `full` model."""
    unique = list(dict.fromkeys(prefixes))
    at_once = max(1, _LOGITS // (len(window.target) * model.vocab_size))
    found: dict[Prefix, torch.Tensor] = {}
    for start in range(0, len(unique), at_once):
        block = unique[start : start + at_once]
        found.update(zip(block, _forward(model, block, window), strict=True))
    return found


@torch.inference_mode()
def _forward(model: Backend, prefixes: Sequence[Prefix], window: Window) -> torch.Tensor:
    starts = [len(prefix.tokens) for prefix in prefixes]
    positions = max(starts) + len(window.query) + len(window.target)
    slots = model.cache.acquire(len(prefixes), positions)
    assert slots is not None
    model.begin(slots, adapted=False)
    for slot, prefix in zip(slots, prefixes, strict=True):
        tokens, end = prefix.tokens, prefix.rounded
        if end:
            assert model.kv is not None
            model.forward([slot], [0], torch.tensor([tokens[:end]]), 0)
            model.kv.write(slot, tokens[:end], model.kv.read(slot, end).pack())
        if end < len(tokens):
            model.forward([slot], [end], torch.tensor([tokens[end:]]), 1)
    fed = torch.tensor([*window.query, *window.target[:-1]]).expand(len(prefixes), -1)
    logits = model.forward(slots, starts, fed, len(window.target))
    model.cache.release(slots)
    wanted = torch.tensor(window.target).expand(len(prefixes), -1)[..., None]
    return (logits.gather(-1, wanted)[..., 0] - logits.logsumexp(-1)).double()
