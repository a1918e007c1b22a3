"""Retrieval on the cloud: from a device's query to rows with public passages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from dragon.inference.engine import Engine
from dragon.inference.rows import Row, room_for_document
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring, shared
from dragon.link import control
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.find import SENTENCES, LineReader, around, heading, ranked, to_read
from dragon.retrieval.judge import TextJudge
from dragon.retrieval.lexical import corrected
from dragon.retrieval.prompt_rows import (
    Answers,
    context_row,
    continuing,
    document_rows,
    first_number,
    rescoring,
)
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.relevance import PUBLIC_LEAST, Hit
from dragon.sampling.role import Role
from peer.corpus.store import Corpus

T = TypeVar("T")

ABOUT = 0.45
"""The least cosine of a public passage that answers a question.

In a corpus about everything, something always shares a word with a question meant for the user's
own documents. What that costs and saves is in bench/LOG.md.
"""


@dataclass(frozen=True)
class Found:
    """The cloud's rows, and the passages in them; none in the bare row.

    `unsearched` is how many parts of the corpus were not searched.
    """

    rows: Sequence[Row]
    hits: Sequence[Hit]
    rescoring: Rescoring | None
    unsearched: int = 0

    def documents(self, weights: Sequence[float]) -> tuple[control.PublicDocument, ...]:
        """The passages in the form sent to the device; `weights` are those of the rows."""
        return tuple(
            control.PublicDocument(
                id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=share
            )
            for hit, share in zip(self.hits, shared(weights, len(self.hits)), strict=False)
        )


@dataclass
class Retriever:
    """Embeds a question, looks it up in the corpus and judges what it finds.

    All of that happens on the engine's thread, which owns the models.

    `answers` says what rows consist of: sentences that answer, or passages around them. A corpus
    that is `far` is searched in another thread, while the engine continues.
    """

    engine: Engine
    embedder: Embedder
    judge: TextJudge
    corpus: Corpus
    tokenizer: Tokenizer
    answers: Answers

    async def find(self, asked: control.Asking, prompt: int, max_tokens: int) -> Found:
        """Passages as rows, only those that leave room for prompt and answer."""
        with self.corpus.counted() as without:
            found = await self._rows(asked, prompt, max_tokens)
        return replace(found, unsearched=len(without))

    async def _rows(self, asked: control.Asking, prompt: int, max_tokens: int) -> Found:
        room = room_for_document(self.engine.model.context, prompt, max_tokens)
        if self.answers.on(raw=asked.raw) is Answers.WORDS and asked.top_k:
            passages = await self._found(self._passages, asked.query, asked.top_k)
            first = first_number(Role.CLOUD, asked.top_k)
            row, kept = context_row(self.tokenizer, passages, room, first, asked.begins)
            return Found([row], kept, None)
        hits = await self.search(asked.query, asked.top_k, judged=asked.judged)
        if self.answers.on(raw=asked.raw) is Answers.LINES:
            hits = hits[:1]
        if hits and self.answers.continues(raw=asked.raw):
            hits = await self._urgent(
                lambda: continuing(self.embedder, asked.query, hits, asked.slope)
            )
        rows, kept = document_rows(
            self.tokenizer,
            hits,
            room,
            raw=asked.raw,
            quotes=self.answers.quotes,
            begins=asked.begins,
        )
        every, slope = asked.rescore_every, asked.slope
        again = rescoring(self.embedder, self.tokenizer, asked.query, rows, every, slope)
        return Found(rows, kept, again)

    async def search(self, query: str, top_k: int, *, judged: bool = True) -> list[Hit]:
        """The passages nearest to a question, at most as many as there are slots.

        If `judged`, only those that answer it, else those that may continue a text.
        """
        return await self._found(partial(self._search, judged=judged), query, top_k)

    async def switch(self, corpus: Corpus) -> None:
        """Search another version of the corpus from now on, and close the previous one.

        Runs on the engine's thread, so between two searches of a corpus that is not `far`. One that
        is far ends its searches itself. Answers in progress keep their passages.
        """

        def switched() -> Corpus:
            before, self.corpus = self.corpus, corpus
            return before

        before = await self._urgent(switched)
        before.close()

    async def _found(
        self, search: Callable[[Corpus, str, int], list[Hit]], query: str, top_k: int
    ) -> list[Hit]:
        if not top_k or not query:
            return []
        # In two steps: the dictionary that it may read would block the engine's thread.
        near = await self._looked_up(lambda corpus: corpus.spelled(query))
        if near:
            query = await asyncio.to_thread(corrected, query, near)
        return await self._looked_up(lambda corpus: search(corpus, query, top_k))

    async def _looked_up(self, job: Callable[[Corpus], T]) -> T:
        """Look up in one version of the corpus, though another may take its place meanwhile."""
        if self.corpus.far:
            return await asyncio.to_thread(job, self.corpus)
        return await self._urgent(lambda: job(self.corpus))

    async def _urgent(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.engine.submit_urgent(job))

    def _computed(self, job: Callable[[], T]) -> T:
        """Run a model's job on the engine's thread, where look-ups run unless the corpus is far."""
        return self.engine.submit_urgent(job).result() if self.corpus.far else job()

    def _search(self, corpus: Corpus, message: str, top_k: int, *, judged: bool) -> list[Hit]:
        query = self._computed(lambda: Query.of(message, self.embedder))
        k = min(top_k, self.engine.model.cache.slots)
        best = ranked(query.questions, query.vectors, _candidates(corpus, query, k))
        return self._judged(corpus, query, best)[:k] if judged else best[:k]

    def _judged(self, corpus: Corpus, query: Query, best: Sequence[Hit]) -> list[Hit]:
        """The lines that answer, best first."""
        best = to_read(query.questions, [h for h in best if _nearness(h, query) >= ABOUT])
        near = {hit.id: corpus.near(hit) for hit in best}
        reader = LineReader(self.judge, self.embedder)
        return self._computed(lambda: reader.answering(query.questions, best, near, PUBLIC_LEAST))

    def _passages(self, corpus: Corpus, message: str, top_k: int) -> list[Hit]:
        """Passages of a few hundred tokens that answer a message, best first."""
        query = self._computed(lambda: Query.of(message, self.embedder))
        best = ranked(query.questions, query.vectors, _candidates(corpus, query, SENTENCES * top_k))
        hits = self._judged(corpus, query, best)
        near = {hit.id: corpus.near(hit) for hit in hits}
        return [
            replace(hit, text=" ".join(each.text for each in sentences), context=under)
            for hit, sentences in around(hits, near, top_k)
            for under in [heading(sentences[0], near[hit.id]).removeprefix(hit.title)]
        ]


def _candidates(corpus: Corpus, query: Query, k: int) -> list[Hit]:
    """What may answer; a title says what its whole document is about."""
    found = corpus.search(query.text, query.vector, k)
    return [replace(hit, about=hit.title) for hit in found]


def _nearness(hit: Hit, query: Query) -> float:
    """The cosine of a passage and the question nearest to it."""
    return 0.0 if hit.vector is None else float(max(query.vectors @ hit.vector))
