"""Relevance of a side's documents to the text that is being written."""

from __future__ import annotations

from collections.abc import Sequence

from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.retrieval.courtesy import plain
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.relevance import relevance, score

# An embedder cuts what is over its limit, at the end: the newest tokens must not be cut.
RECENT_TOKENS = 96


def rescoring(
    embedder: TextEmbedder, tokenizer: Tokenizer, question: str, rows: Sequence[Row], every: int
) -> Rescoring | None:
    """Re-score rows every so many tokens, by the cosine of question and latest text together.

    The share of the question's words in a row and what was judged of it stay as they are. None
    where that changes nothing: `every` is 0, or no row has a document's vector. A row without one
    keeps its relevance. It embeds a text a call, so it runs on the engine's thread.
    """
    if not every or all(row.vector is None for row in rows):
        return None

    def rescored(text: Sequence[int]) -> list[float]:
        running = f"{plain(question)} {tokenizer.decode(text[-RECENT_TOKENS:])}"
        vector = embedder.embed([running])[0]
        return [
            row.relevance
            if row.vector is None
            else relevance(score(float(row.vector @ vector), row.coverage) + row.judgement)
            for row in rows
        ]

    return Rescoring(every, rescored)
