"""Re-scores a side's rows on the text being generated."""

from __future__ import annotations

from collections.abc import Sequence

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.query_parsing import plain
from dragon.retrieval.relevance import SLOPE

# An embedder truncates long texts at the end, where the newest tokens are.
RECENT_TOKENS = 96


def rescoring(
    embedder: TextEmbedder, tokenizer: Tokenizer, question: str, rows: Sequence[Row], every: int
) -> Rescoring | None:
    """Re-score rows every `every` tokens, by the cosine with question and latest text together.

    The change in cosine that the running text brings is added to a row's relevance; a row without a
    vector keeps its relevance. Returns None if nothing would change: `every` is 0, or no row has a
    vector. Each call embeds a text, so it runs on the engine's thread.
    """
    if not every or all(row.vector is None for row in rows):
        return None

    (asked,) = embedder.embed([plain(question)])

    def rescored(text: Sequence[int]) -> list[float]:
        running = f"{plain(question)} {tokenizer.decode(text[-RECENT_TOKENS:])}"
        vector = embedder.embed([running])[0]
        return [
            row.relevance
            if row.vector is None
            else row.relevance + SLOPE * float(row.vector @ (vector - asked))
            for row in rows
        ]

    return Rescoring(every, rescored)
