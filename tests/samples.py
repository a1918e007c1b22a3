"""Files to upload, made on the spot, and the real embedder, loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from dragon.retrieval.relevance import Hit


@cache
def embedder() -> Embedder:
    return Embedder.load()


@cache
def judge() -> Judge:
    return Judge.load()


def prose(sentences: int, seed: str = "stone") -> str:
    """Paragraphs of sentences that all differ."""
    return "".join(
        f"On day {number} the {seed} keeper wrote down {number * 37 % 1009} in the blue ledger."
        + ("\n\n" if number % 5 == 4 else " ")
        for number in range(sentences)
    )


def hits(texts: Sequence[tuple[str, str]], first: int = 0) -> list[Hit]:
    """Passages, each with its context, as a search finds them before they are scored."""
    vectors = embedder().embed([embedded_text(*each) for each in texts])
    return [
        Hit(first + n, "d", "title", text, 0.0, 0.0, context=context, vector=vector)
        for n, ((text, context), vector) in enumerate(zip(texts, vectors, strict=True))
    ]
