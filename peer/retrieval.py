"""Retrieval on the cloud: from a device's query to rows with public passages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dragon.inference.engine import Engine
from dragon.inference.rows import Row, room_for_document
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.link import control
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.hops import SCORE
from dragon.retrieval.prompt_rows import document_rows
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import answering, ranked
from dragon.retrieval.relevance import Hit
from dragon.retrieval.reranker import TextReranker
from dragon.retrieval.rescoring import rescoring
from peer.corpus.store import Corpus


@dataclass(frozen=True)
class Found:
    """The cloud's rows, and the passages in them; none in the bare row."""

    rows: Sequence[Row]
    hits: Sequence[Hit]
    rescoring: Rescoring | None

    def documents(self, weights: Sequence[float]) -> tuple[control.PublicDocument, ...]:
        """The passages as they are sent to the device; `weights` are those of the rows."""
        return tuple(
            control.PublicDocument(
                id=hit.document, title=hit.title, text=hit.text, score=hit.score, weight=weight
            )
            for hit, weight in zip(self.hits, weights, strict=False)
        )


@dataclass
class Retriever:
    """Embeds a question, looks it up in the corpus and reranks, on the engine's thread."""

    engine: Engine
    embedder: Embedder
    reranker: TextReranker
    corpus: Corpus
    tokenizer: Tokenizer

    async def find(self, asked: control.Asking, prompt: int, max_tokens: int) -> Found:
        """Passages as rows, only those that leave room for prompt and answer."""
        hits = await self.search(asked.query, asked.top_k, judged=asked.judged)
        room = room_for_document(self.engine.model.context, prompt, max_tokens)
        rows, kept = document_rows(
            self.tokenizer, hits, room, raw=asked.raw, quotes=self.engine.model.quotes
        )
        every = asked.rescore_every
        return Found(rows, kept, rescoring(self.embedder, self.tokenizer, asked.query, rows, every))

    async def search(self, query: str, top_k: int, *, judged: bool = True) -> list[Hit]:
        """The passages nearest to a question, at most as many as there are slots.

        Only those that answer it, if they are `judged`, and else those that may go on with a text.
        """
        if not top_k or not query:
            return []
        search = partial(self._search, query, top_k, judged=judged)
        return await asyncio.wrap_future(self.engine.submit_urgent(search))

    def _search(self, message: str, top_k: int, *, judged: bool) -> list[Hit]:
        query = Query.of(message, self.embedder)
        k = min(top_k, self.engine.model.cache.slots)
        best = ranked(query, self.corpus.search(query.text, query.vector, k))
        if judged:
            return answering(query, best, k, self.reranker)
        return [hit for hit in best if hit.score >= SCORE][:k]
