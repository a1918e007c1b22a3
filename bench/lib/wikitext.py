"""WikiText-2 as in DRAGON, arXiv 2504.11197: train-split passages, rolling valid-split windows.

A window's first eighth is the query that finds its passages, the rest is what is predicted. The
words that WikiText-2 leaves out (`<unk>`) are read but not scored: nothing could know them.
"""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.calibration import Window
from dragon.retrieval.embedder import TextEmbedder
from training.texts import detokenized

PASSAGE_WORDS = 64
# Shorter lines are headings.
_LEAST_WORDS = 10
_CANDIDATES = 64


def read(path: Path) -> list[str]:
    """The lines of a split, plain or .xz, with the spacing of its tokenised form undone."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        return [detokenized(line) for line in lines]


def passages(lines: Sequence[str]) -> list[str]:
    """Every line cut into passages of 64 words."""
    found = []
    for line in lines:
        words = line.split()
        if len(words) >= _LEAST_WORDS:
            starts = range(0, len(words), PASSAGE_WORDS)
            found += [" ".join(words[i : i + PASSAGE_WORDS]) for i in starts]
    return found


def windows(lines: Sequence[str], tokenizer: Tokenizer, size: int) -> list[Window]:
    """All windows of `size` tokens that roll over the text.

    The next window's query is the end of this one: no token is predicted twice.
    """
    text = "\n".join(lines)
    tokens = tokenizer.encode(text)
    spans = np.array(tokenizer.offsets(text))
    scored = np.ones(len(tokens), dtype=bool)
    for match in re.finditer("<unk>", text):
        first = np.searchsorted(spans[:, 1], match.start(), side="right")
        last = np.searchsorted(spans[:, 0], match.end(), side="left")
        scored[first:last] = False
    query = size // 8
    found = []
    for start in range(0, len(tokens) - size + 1, size - query):
        middle, end = start + query, start + size
        found.append(
            Window(
                tuple(tokens[start:middle]),
                tuple(tokens[middle:end]),
                tuple(scored[middle:end].tolist()),
            )
        )
    return found


@dataclass(frozen=True)
class Passage:
    """A passage found: its embedding float32 [dim], and the cosine of that with the query's."""

    text: str
    cosine: float
    vector: npt.NDArray[np.float32]


class Corpus:
    """Passages, found by their words (BM25) and ranked by the cosine of their embeddings.

    Only what BM25 finds is embedded: the whole corpus would take many minutes.
    """

    def __init__(self, texts: Sequence[str], embedder: TextEmbedder) -> None:
        self.texts = texts
        self._embedder = embedder
        self._words = sqlite3.connect(":memory:")
        self._words.execute("CREATE VIRTUAL TABLE passage USING fts5(text)")
        self._words.executemany("INSERT INTO passage(rowid, text) VALUES (?, ?)", enumerate(texts))

    def search(self, query: str, count: int) -> list[Passage]:
        """The `count` passages nearest to the query, nearest first."""
        words = sorted(set(re.findall(r"\w+", query.lower())))
        found = self._words.execute(
            "SELECT rowid FROM passage WHERE passage MATCH ? ORDER BY rank, rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), max(_CANDIDATES, count)),
        )
        texts = [self.texts[row] for (row,) in found]
        asked, *vectors = self._embedder.embed([query, *texts])
        passages = [
            Passage(text, float(vector @ asked), vector)
            for text, vector in zip(texts, vectors, strict=True)
        ]
        return sorted(passages, key=lambda passage: -passage.cosine)[:count]
