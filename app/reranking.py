"""The reranker as a service of its own: a question and texts in, how well each answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from dragon.errors import InvalidRequestError
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.reranker import TextReranker

Logits = npt.NDArray[np.float64]
_SENTENCES = 16
"""Read at a time, between answers."""
MOST_SENTENCES = 5000
"""Of all texts together."""


@dataclass(frozen=True)
class RerankingService:
    """Ranks texts for the API. `run_idle` queues a job, which waits until answers leave time."""

    reranker: TextReranker
    model_name: str
    run_idle: Callable[[Callable[[], Logits]], Future[Logits]]

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How likely each text answers, 0 to 1: that of its best sentence, 0 without any.

        The reranker reads sentences, as in a search of documents. Cancelled, it stops after the job
        under way. Raises `InvalidRequestError` where there is too much to read.
        """
        split: list[list[str]] = []
        rows: list[str] = []
        for text in texts:
            split.append(await asyncio.to_thread(self._sentences, text))
            rows += split[-1]
            if len(rows) > MOST_SENTENCES:
                raise InvalidRequestError(
                    f"documents: at most {MOST_SENTENCES} sentences or lines, all of them together",
                    param="documents",
                )
        parts = [np.empty(0)]
        for start in range(0, len(rows), _SENTENCES):
            work = partial(self.reranker.logits, query, rows[start : start + _SENTENCES])
            parts.append(await asyncio.wrap_future(self.run_idle(work)))
        likely = 1.0 / (1.0 + np.exp(-np.concatenate(parts)))
        ends = np.cumsum([len(each) for each in split])
        return [
            float(likely[end - len(each) : end].max(initial=0.0))
            for each, end in zip(split, ends, strict=True)
        ]

    def _sentences(self, text: str) -> list[str]:
        return [embedded_text(each.text, each.context) for each in sentences([text])]
