"""Hybrid search over uploaded documents: dense vectors and BM25, fused and reranked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import ColumnElement, Select, column, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.index import DocumentIndex
from app.documents.jobs import RunJob
from app.storage.tables import Chunk, Document, Status
from dragon.errors import InvalidRequestError
from dragon.retrieval.duplicates import distinct
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import fused, match_expression
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import CANDIDATES, answering, ranked
from dragon.retrieval.relevance import Hit
from dragon.retrieval.reranker import TextReranker

_FTS = table("chunks_fts", column("rowid"))

T = TypeVar("T")


@dataclass(frozen=True)
class DocumentHit(Hit):
    """A chunk of an uploaded document: `title` is the file's name.

    `start` and `end` are character offsets in the document's parsed text; `page` counts from 1 and
    is None for what has no pages.
    """

    page: int | None
    start: int
    end: int


@dataclass(frozen=True)
class Scope:
    """Restricts a search to documents and collections; None means no restriction."""

    documents: Sequence[str] | None = None
    collections: Sequence[str] | None = None

    @property
    def limited(self) -> bool:
        """Whether it restricts anything."""
        return self.documents is not None or self.collections is not None

    def within(self, statement: Select[T]) -> Select[T]:
        """The statement restricted to the documents in scope."""
        if self.documents is not None:
            statement = statement.where(Document.id.in_(self.documents))
        if self.collections is not None:
            statement = statement.where(Document.collection.in_(self.collections))
        return statement


EVERYTHING = Scope()


@dataclass(frozen=True)
class Finder:
    """Searches the vectors and the full text of processed documents."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    embedder: TextEmbedder
    reranker: TextReranker
    run_urgent: RunJob

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> list[DocumentHit]:
        """At most k passages, best first, near-duplicates removed.

        With `relevant` only those likely to answer. Raises InvalidRequestError if the scope names
        an unknown document or collection.
        """
        asked = await self.run_urgent(lambda: Query.of(query, self.embedder))
        # A cancelled query would leave its snapshot open, and deleted text in the log with it.
        hits = await to_the_end(self._candidates(asked, max(CANDIDATES, 4 * k), scope))
        newest_first = sorted(hits, key=lambda hit: -hit.id)
        best = await asyncio.to_thread(lambda: ranked(asked, distinct(newest_first)))
        if not relevant:
            return best[:k]
        return await self.run_urgent(lambda: answering(asked, best, k, self.reranker))

    async def _candidates(self, query: Query, wanted: int, scope: Scope) -> list[DocumentHit]:
        """Unscored candidate chunks of processed documents."""
        async with self.index.settled.reader, self.sessions() as session:
            allowed = await _chunks_within(session, scope) if scope.limited else None
            nearest = await asyncio.to_thread(
                self.index.vectors.search, query.vector, wanted, allowed
            )
            near = [key for key, _ in nearest]
            worded = await _worded(session, query.text, wanted, scope)
            candidates = fused(near, worded)[:wanted]
            processed = (
                select(Chunk, Document.filename)
                .join(Document, Document.id == Chunk.document_id)
                .where(Chunk.id.in_(candidates), Document.status == Status.PROCESSED)
            )
            rows = (await session.execute(processed)).all()
            vectors = self.index.vectors.vectors([chunk.id for chunk, _ in rows])
        return [
            _hit(chunk, filename, vectors[chunk.id])
            for chunk, filename in rows
            if chunk.id in vectors  # otherwise deleted meanwhile
        ]


async def _chunks_within(session: AsyncSession, scope: Scope) -> list[int]:
    for document in scope.documents or ():
        there = Document.id == document
        await _require(session, there, f"There is no file '{document}'.", "documents")
    for name in scope.collections or ():
        there = Document.collection == name
        await _require(session, there, f"There is no collection '{name}'.", "collections")
    documents = scope.within(select(Document.id))
    return list(await session.scalars(select(Chunk.id).where(Chunk.document_id.in_(documents))))


async def _require(
    session: AsyncSession, there: ColumnElement[bool], otherwise: str, param: str
) -> None:
    if await session.scalar(select(Document.id).where(there).limit(1)) is None:
        raise InvalidRequestError(otherwise, param=param)


async def _worded(session: AsyncSession, query: str, k: int, scope: Scope) -> list[int]:
    """Ids of chunks that share words with the query, by BM25, best first."""
    if not (expression := match_expression(query)):
        return []
    matching = (
        select(Chunk.id)
        .join(Document, Document.id == Chunk.document_id)
        .join(_FTS, _FTS.c.rowid == Chunk.id)
        .where(text("chunks_fts MATCH :expression"), Document.status == Status.PROCESSED)
        .order_by(text("chunks_fts.rank"))
        .limit(k)
    )
    return list(await session.scalars(scope.within(matching), {"expression": expression}))


def _hit(chunk: Chunk, filename: str, vector: Vectors) -> DocumentHit:
    return DocumentHit(
        id=chunk.id,
        document=chunk.document_id,
        title=filename,
        text=chunk.text,
        score=0.0,
        relevance=0.0,
        context=chunk.context,
        vector=vector,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
    )
