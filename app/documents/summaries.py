"""Finds the document that is to be summed up, and sums it up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.hits import DocumentHit, Scope, hit_of
from app.documents.index import DocumentIndex
from app.documents.summary import Place, central, named
from app.documents.texts import text_of
from app.storage.tables import Chunk, Document, Status, upload_order
from dragon.retrieval.relevance import HIGHEST, WORDS

_NAMES = 1000  # of documents, the newest, among which the one that is meant is looked for
_OPENED = 16  # documents, at most, whose beginnings are read
_NEAREST = 8  # passages that tell which document is meant
_OPENING = 200  # characters
_SENTENCES = 2000  # of a document, at most


@dataclass(frozen=True)
class Summaries:
    """Sums up processed documents, whose texts are under `files`."""

    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    files: Path

    async def of(
        self, query: str, subject: frozenset[str], best: Sequence[DocumentHit], scope: Scope
    ) -> list[DocumentHit]:
        """One hit, whose text is the summary of the document that is meant; none if none is.

        `best` are the passages nearest to the query.
        """
        async with self.sessions() as session:
            processed = select(Document).where(Document.status == Status.PROCESSED)
            newest = processed.order_by(upload_order.desc()).limit(_NAMES)
            documents = list(await session.scalars(scope.within(newest)))
            meant = await asyncio.to_thread(self._meant, query, subject, documents, best)
            if meant is None:
                return []
            chunks = select(Chunk).where(Chunk.document_id == meant.id).order_by(Chunk.id)
            sentences = list(await session.scalars(chunks.limit(_SENTENCES)))
        vectors = self.index.vectors([each.id for each in sentences])
        places = [Place(c.start, c.end, vectors[c.id]) for c in sentences if c.id in vectors]
        text = await asyncio.to_thread(text_of, self.files, meant.id)
        chosen = await asyncio.to_thread(central, text, places) if text else []
        if not chosen:
            return []
        first = next(each for each in sentences if each.start == chosen[0].start)
        hit = hit_of(first, meant.filename, meant.kind, chosen[0].vector)
        summary = " ".join(text[each.start : each.end] for each in chosen)
        whole = replace(hit, text=summary, end=chosen[-1].end)
        return [replace(whole, score=1.0 + WORDS, relevance=HIGHEST)]

    def _meant(
        self,
        query: str,
        subject: frozenset[str],
        documents: Sequence[Document],
        best: Sequence[DocumentHit],
    ) -> Document | None:
        """The document to sum up: by its name, or how it begins, or since it is all about that.

        If any will do it is the one that earlier questions were about, or else the newest.
        """
        known = {each.id: each for each in documents}
        near = dict.fromkeys(hit.document for hit in best)
        close = [known[each] for each in near if each in known]
        if not subject:
            before = close if query.endswith(")") else []
            return next(iter([*before, *documents]), None)
        likeliest = max(documents, key=lambda each: named(subject, each.filename), default=None)
        if likeliest is not None and named(subject, likeliest.filename):
            return likeliest
        begun = (each for each in close[:_OPENED] if self._begins(subject, each))
        return next(begun, None) or known.get(_about(subject, best[:_NEAREST]))

    def _begins(self, subject: frozenset[str], document: Document) -> bool:
        """Whether a document begins with half of these stems at least."""
        return 2 * named(subject, text_of(self.files, document.id)[:_OPENING]) >= len(subject)


def _about(subject: frozenset[str], nearest: Sequence[DocumentHit]) -> str:
    """The document that most of the nearest passages are of, if one names any of these stems."""
    for document, count in Counter(hit.document for hit in nearest).most_common(1):
        texts = (f"{hit.text} {hit.context}" for hit in nearest if hit.document == document)
        if 2 * count > _NEAREST and any(named(subject, text) for text in texts):
            return document
    return ""
