"""The judge as a service: a question and texts in, a score for each text out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from app.generation.admission import Threads
from dragon.errors import InvalidRequestError
from dragon.retrieval.chunking import sentences
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.find import LineReader
from dragon.retrieval.judge import Line, TextJudge
from dragon.retrieval.relevance import probability

_BYTES = 700
"""The most bytes of lines that one job reads."""
MOST_PARTS = 1000
"""The most jobs of one request."""


@dataclass(frozen=True)
class RerankingService:
    """Ranks texts for the API. `run_idle` queues a job, which waits until answers leave time."""

    judge: TextJudge
    embedder: TextEmbedder
    model_name: str
    run_idle: Callable[[Callable[[], float]], Future[float]]
    threads: Threads

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The probability that each text answers: that of its best line, 0 if it has none.

        If cancelled, it stops after the current job. Raises `InvalidRequestError` if there is too
        much to read.
        """
        split = await self.threads.run(lambda: _split(texts))
        return [await self._score(query, parts) for parts in split]

    async def _score(self, query: str, parts: Sequence[Sequence[Line]]) -> float:
        odds, reader = [], LineReader(self.judge, self.embedder)
        for lines in parts:
            work = partial(reader.best_odds, query, lines)
            odds.append(await asyncio.wrap_future(self.run_idle(work)))
        return probability(max(odds)) if odds else 0.0


def _split(texts: Sequence[str]) -> list[list[list[Line]]]:
    """The lines of each text. Raises `InvalidRequestError` where there is too much to read."""
    split: list[list[list[Line]]] = []
    for text in texts:
        split.append(_passages(text))
        if sum(map(len, split)) > MOST_PARTS:
            raise InvalidRequestError(
                f"documents: at most {MOST_PARTS * _BYTES // 1000} kB, all of them together",
                param="documents",
            )
    return split


def _passages(text: str) -> list[list[Line]]:
    """A text's lines, a few at a time; the first of each with its context."""
    passages, lines, size = list[list[Line]](), list[Line](), 0
    for each in sentences([text]):
        if lines and size + len(each.text.encode()) > _BYTES:
            passages.append(lines)
            lines, size = [], 0
        lines.append(Line(each.text, "" if lines else each.context))
        size += len(each.text.encode())
    return [*passages, lines] if lines else passages
