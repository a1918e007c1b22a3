"""Hybrid search over uploaded documents: dense vectors and BM25, fused and reranked.

It uses what is there: of a document that is still being taken in, the words of what is cut, and the
vectors of what is embedded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Select, column, not_, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.continuation import SENTENCES, continuations
from app.documents.hits import EVERYTHING, DocumentHit, Scope, hit_of
from app.documents.index import DocumentIndex
from app.documents.jobs import RunJob
from app.documents.spelling import respelled
from app.documents.summaries import Summaries
from app.documents.summary import subject
from app.documents.tables.answer import answer
from app.documents.tables.shelf import Shelf
from app.documents.texts import paragraph_at, text_of, title_of
from app.storage.tables import Chunk, Document
from dragon.errors import InvalidRequestError
from dragon.retrieval.duplicates import distinct
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.lexical import fused, match_expression
from dragon.retrieval.names import meeting, spellings
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import CANDIDATES, answering, as_far_as_it_answers, embedded, ranked
from dragon.retrieval.relevance import HIGHEST, MINIMUM_SCORE, WORDS
from dragon.retrieval.reranker import TextReranker

_TABLED = 3  # documents, at most, whose tables are asked
_NEW = 8  # passages without a vector yet, at most, that are embedded for a question
_FTS = table("chunks_fts", column("rowid"))


@dataclass(frozen=True)
class Finder:
    """Searches the vectors, the full text and the tables of documents."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    tables: Shelf
    summaries: Summaries
    embedder: TextEmbedder
    reranker: TextReranker
    run_urgent: RunJob

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> list[DocumentHit]:
        """At most k passages, best first, near-duplicates removed.

        With `relevant` only those likely to answer, or what a table answers. Raises
        InvalidRequestError if the scope names an unknown document or collection.
        """
        query = await to_the_end(self._respelled(query))
        asked, best = await self._nearest(query, k, scope)
        if not relevant:
            return best[:k]
        computed = await self._computed(query, best, scope)
        if computed is not None:
            return computed
        # Or a passage about another day, ticket or room would answer for the one that is named.
        best = await self.run_urgent(
            lambda: meeting(query, best, lambda hit: (hit.text, hit.context, hit.title, hit.about))
        )
        found = await self.run_urgent(
            lambda: answering(asked, best, k, self.reranker, embedder=self.embedder)
        )
        if not found:
            return []
        texts = await asyncio.to_thread(self._texts, found)
        lengths = await to_the_end(self._lengths(found[0], texts))
        found[0] = await self.run_urgent(
            lambda: as_far_as_it_answers(asked, lengths, self.embedder, self.reranker)
        )
        return await asyncio.to_thread(_in_paragraphs, found, texts)

    async def related(
        self, query: str, k: int, scope: Scope = EVERYTHING
    ) -> tuple[list[DocumentHit], list[DocumentHit]]:
        """What is computed from documents for a query, and at most k sentences, best first.

        A sentence need not answer it: its score alone says that it is about the same. Raises
        InvalidRequestError as `search` does.
        """
        query = await to_the_end(self._respelled(query))
        asked, best = await self._nearest(query, k, scope)
        computed = await self._computed(query, best, scope)
        # By vectors of each by itself: only these have scores on the scale of both sides.
        exact = await self.run_urgent(lambda: ranked(asked, embedded(best[:k], self.embedder)))
        return computed or [], [hit for hit in exact if hit.score >= MINIMUM_SCORE]

    async def _respelled(self, query: str) -> str:
        async with self.sessions() as session:
            return await respelled(session, query)

    async def _nearest(self, query: str, k: int, scope: Scope) -> tuple[Query, list[DocumentHit]]:
        """The query, and scored sentences, best first, near-duplicates removed."""
        asked = await self.run_urgent(lambda: Query.of(query, self.embedder))
        # A cancelled query would leave its snapshot open, and deleted text in the log with it.
        hits = await to_the_end(self._candidates(asked, max(CANDIDATES, 4 * k), scope))
        newest_first = sorted(await self._seen(hits), key=lambda hit: -hit.id)
        return asked, await asyncio.to_thread(
            lambda: ranked(asked, self._titled(distinct(newest_first)))
        )

    def _titled(self, hits: Sequence[DocumentHit]) -> list[DocumentHit]:
        """Sentences that know their documents' titles; rows of tables say all by themselves."""
        prose = {hit.document for hit in hits if not hit.tabular}
        titles = {each: title_of(self.tables.files, each) for each in prose}
        return [replace(hit, about=titles.get(hit.document, "")) for hit in hits]

    async def _seen(self, hits: Sequence[DocumentHit]) -> list[DocumentHit]:
        """Those with a vector, and the first of the others with one made now."""
        known = [hit for hit in hits if hit.vector is not None]
        new = [hit for hit in hits if hit.vector is None][:_NEW]
        if new:
            known += await self.run_urgent(lambda: embedded(new, self.embedder))
        return known

    async def _computed(
        self, query: str, best: Sequence[DocumentHit], scope: Scope
    ) -> list[DocumentHit] | None:
        """A summary where one is asked for, or what a table answers; None where neither is."""
        if (wanted := subject(query)) is not None:
            return await to_the_end(self.summaries.of(query, wanted, best, scope))
        known = await asyncio.to_thread(self._from_tables, query, best)
        return [known] if known else None

    async def _lengths(self, hit: DocumentHit, texts: Mapping[str, str]) -> list[DocumentHit]:
        """A passage, then with the sentences behind it."""
        if hit.tabular:
            return [hit]
        after = Chunk.document_id == hit.document, Chunk.id > hit.id
        statement = select(Chunk.end).where(*after).order_by(Chunk.id).limit(SENTENCES)
        async with self.sessions() as session:
            ends = list(await session.scalars(statement))
        longer = continuations(texts[hit.document], hit.start, ends)
        return [hit, *(replace(hit, text=each, end=hit.start + len(each)) for each in longer)]

    def _texts(self, hits: Sequence[DocumentHit]) -> dict[str, str]:
        """The texts of documents that are no tables, by their ids."""
        prose = {hit.document for hit in hits if not hit.tabular}
        return {each: text_of(self.tables.files, each) for each in prose}

    def _from_tables(self, query: str, best: Sequence[DocumentHit]) -> DocumentHit | None:
        """What the first of the nearest tables answers."""
        documents = {hit.document: hit for hit in reversed(best)}
        tabled = 0
        for hit in reversed(documents.values()):
            tables = self.tables.of(hit.document, hit.kind) if tabled < _TABLED else ()
            tabled += bool(tables)
            for each in tables:
                if found := answer(query, each, hit.title):
                    return replace(
                        hit,
                        text=found.text,
                        score=1.0 + WORDS,
                        relevance=HIGHEST,
                        start=found.start,
                        end=found.end,
                        query=found.query,
                    )
        return None

    async def _candidates(self, query: Query, wanted: int, scope: Scope) -> list[DocumentHit]:
        """Unscored candidate chunks, best first; some have no vector yet."""
        async with self.index.settled.reader, self.sessions() as session:
            allowed = await _chunks_within(session, scope)
            # A new version takes no place of the old one, which answers until the new one is whole.
            replacing = _chunks_of(select(Document.id).where(Document.replaces))
            hidden = list(await session.scalars(replacing))
            near = await asyncio.to_thread(self.index.search, query.vector, wanted, allowed, hidden)
            worded = await _worded(session, query.text, wanted, scope)
            candidates = fused(near, worded)[:wanted]
            there = (
                select(Chunk, Document.filename, Document.kind)
                .join(Document, Document.id == Chunk.document_id)
                .where(Chunk.id.in_(candidates), not_(Document.replaces))
            )
            rows = (await session.execute(there)).all()
            vectors = self.index.vectors(candidates)
        place = {key: rank for rank, key in enumerate(candidates)}
        return [
            hit_of(chunk, filename, kind, vectors.get(chunk.id))
            for chunk, filename, kind in sorted(rows, key=lambda row: place[row[0].id])
        ]


def _in_paragraphs(hits: Sequence[DocumentHit], texts: Mapping[str, str]) -> list[DocumentHit]:
    """Sentences with what stands around them; a row of a table stands alone."""
    return [
        replace(hit, around=paragraph_at(texts.get(hit.document, ""), hit.start, hit.end))
        for hit in hits
    ]


async def _chunks_within(session: AsyncSession, scope: Scope) -> list[int] | None:
    """The chunks whose vectors may be found; None: all. Raises InvalidRequestError."""
    for document in scope.documents or ():
        there = Document.id == document
        await _require(session, there, f"There is no file '{document}'.", "documents")
    for name in scope.collections or ():
        there = Document.collection == name
        await _require(session, there, f"There is no collection '{name}'.", "collections")
    if not scope.limited:
        return None
    return list(await session.scalars(_chunks_of(scope.within(select(Document.id)))))


def _chunks_of(documents: Select[str]) -> Select[int]:
    return select(Chunk.id).where(Chunk.document_id.in_(documents))


async def _require(
    session: AsyncSession, there: ColumnElement[bool], otherwise: str, param: str
) -> None:
    if await session.scalar(select(Document.id).where(there).limit(1)) is None:
        raise InvalidRequestError(otherwise, param=param)


async def _worded(session: AsyncSession, query: str, k: int, scope: Scope) -> list[int]:
    """Ids of chunks that share words with the query, by BM25, best first."""
    spelt = (f'"{each}"' for each in spellings(query))
    if not (expression := " OR ".join(filter(None, (match_expression(query), *spelt)))):
        return []
    matching = (
        select(Chunk.id)
        .join(Document, Document.id == Chunk.document_id)
        .join(_FTS, _FTS.c.rowid == Chunk.id)
        .where(text("chunks_fts MATCH :expression"), not_(Document.replaces))
        .order_by(text("chunks_fts.rank"))
        .limit(k)
    )
    return list(await session.scalars(scope.within(matching), {"expression": expression}))
