"""Passages of documents: sentences that were found, with those around.

They are for a model that writes, or for a person who reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.documents.search import Finder
from app.documents.texts import APART, text_of
from app.storage.tables import Chunk
from dragon.retrieval.chunking import PAGE_BREAK
from dragon.retrieval.passages import (
    REACH,
    SENTENCES,
    TO_READ,
    TO_WRITE_FROM,
    Length,
    around,
    heading,
)


@dataclass(frozen=True)
class Passages:
    """Cuts passages from the texts of processed documents, which are under `files`."""

    finder: Finder
    sessions: async_sessionmaker[AsyncSession]
    files: Path

    async def of(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k passages about what a query asks, best first; `context` is their heading.

        What a table answers, or a summary, comes before them. Raises InvalidRequestError if the
        scope names an unknown document or collection.
        """
        computed, hits = await self.finder.related(query, SENTENCES * k, scope)
        near = await to_the_end(self._near(hits))
        # Cutting reads whole texts.
        cut = await asyncio.to_thread(self._cut, hits, near, k, TO_WRITE_FROM, self._texts())
        return [*(replace(hit, context="") for hit in computed), *cut][:k]

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k paragraphs, or parts of them, and rows that come nearest, whether they answer.

        Raises InvalidRequestError as `of` does.
        """
        hits = await self.finder.search(query, SENTENCES * k, scope, relevant=False)
        near = await to_the_end(self._near(hits))
        return await asyncio.to_thread(self._paragraphs, hits, near, k)

    async def _near(self, hits: Sequence[DocumentHit]) -> dict[int, Sequence[Chunk]]:
        """The sentences around each hit, in order; none where its document was deleted."""
        near: dict[int, Sequence[Chunk]] = {}
        async with self.sessions() as session:
            for hit in hits:
                own = select(Chunk).where(Chunk.document_id == hit.document)
                before = own.where(Chunk.id < hit.id).order_by(Chunk.id.desc()).limit(REACH)
                behind = own.where(Chunk.id >= hit.id).order_by(Chunk.id).limit(REACH + 1)
                nearest = (await session.scalars(before)).all()
                near[hit.id] = [*reversed(nearest), *await session.scalars(behind)]
        return near

    def _texts(self) -> Callable[[str], str]:
        """Reads the texts of documents by their ids, each once."""
        return cache(partial(text_of, self.files))

    def _paragraphs(
        self, hits: Sequence[DocumentHit], near: dict[int, Sequence[Chunk]], k: int
    ) -> list[DocumentHit]:
        texts = self._texts()
        near = {hit.id: _together(hit, near[hit.id], texts(hit.document)) for hit in hits}
        return self._cut(hits, near, k, TO_READ, texts)

    def _cut(
        self,
        hits: Sequence[DocumentHit],
        near: dict[int, Sequence[Chunk]],
        k: int,
        length: Length,
        text_by: Callable[[str], str],
    ) -> list[DocumentHit]:
        passages = []
        for hit, sentences in around(hits, near, k, length):
            text = text_by(hit.document)
            start, end = sentences[0].start, sentences[-1].end
            # While it is being read, a document has its sentences, and no text yet.
            joined = " ".join(sentence.text for sentence in sentences)
            if passage := text[start:end].replace(PAGE_BREAK, "\n") or joined:
                passages.append(
                    replace(
                        hit,
                        text=passage,
                        context=heading(sentences[0], near[hit.id]),
                        page=sentences[0].page,
                        confidence=sentences[0].confidence,
                        start=start,
                        end=end,
                        sentences=tuple(sentence.text for sentence in sentences),
                    )
                )
        return passages


def _together(hit: DocumentHit, near: Sequence[Chunk], text: str) -> Sequence[Chunk]:
    """Of the sentences around a hit those of its paragraph; of a table its row alone."""
    if hit.tabular:
        return [chunk for chunk in near if chunk.id == hit.id]
    paragraph: list[Chunk] = []
    for chunk in near:
        if paragraph and APART.search(text, paragraph[-1].end, chunk.start):
            if paragraph[-1].id >= hit.id:
                break
            paragraph = []
        paragraph.append(chunk)
    return paragraph
