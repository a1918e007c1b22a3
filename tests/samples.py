"""Files to upload, made on the spot, and the real embedder, loaded once."""

from __future__ import annotations

from functools import cache

from dragon.retrieval.embedder import Embedder
from dragon.retrieval.reranker import Reranker


@cache
def embedder() -> Embedder:
    return Embedder.load()


@cache
def reranker() -> Reranker:
    return Reranker.load()


def prose(sentences: int, seed: str = "stone") -> str:
    """Paragraphs of sentences that all differ."""
    return "".join(
        f"On day {number} the {seed} keeper wrote down {number * 37 % 1009} in the blue ledger."
        + ("\n\n" if number % 5 == 4 else " ")
        for number in range(sentences)
    )
