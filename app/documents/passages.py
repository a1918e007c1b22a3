"""Passages of documents: sentences that were found, with those around.

They are for a model that writes, or for a person who reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from app.cancellation import to_the_end
from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.documents.search import Finder
from app.documents.texts import APART, text_of
from dragon.retrieval.chunking import PAGE_BREAK
from dragon.retrieval.passages import SENTENCES, TO_READ, TO_WRITE_FROM, Length, around, heading


@dataclass(frozen=True)
class Passages:
    """Cuts passages from the texts of processed documents, which are under `files`."""

    finder: Finder
    files: Path

    async def of(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k passages that answer a query, best first; `context` is their heading.

        What a table answers, or a summary, comes before them. Raises InvalidRequestError if the
        scope names an unknown document or collection.
        """
        computed, hits = await self.finder.lines(query, SENTENCES * k, scope)
        near = await to_the_end(self.finder.near(hits))
        # Cutting reads whole texts.
        cut = await asyncio.to_thread(self._cut, hits, near, k, TO_WRITE_FROM, self._texts())
        return [*(replace(hit, context="") for hit in computed), *cut][:k]

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> list[DocumentHit]:
        """At most k paragraphs, or parts of them, and rows that come nearest, whether they answer.

        Raises InvalidRequestError as `of` does.
        """
        hits = await self.finder.search(query, SENTENCES * k, scope, relevant=False)
        near = await to_the_end(self.finder.near(hits))
        return await asyncio.to_thread(self._paragraphs, hits, near, k)

    def _texts(self) -> Callable[[str], str]:
        """Reads the texts of documents by their ids, each once."""
        return cache(partial(text_of, self.files))

    def _paragraphs(
        self, hits: Sequence[DocumentHit], near: dict[int, Sequence[DocumentHit]], k: int
    ) -> list[DocumentHit]:
        texts = self._texts()
        near = {hit.id: _together(hit, near[hit.id], texts(hit.document)) for hit in hits}
        return self._cut(hits, near, k, TO_READ, texts)

    def _cut(
        self,
        hits: Sequence[DocumentHit],
        near: dict[int, Sequence[DocumentHit]],
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


def _together(hit: DocumentHit, near: Sequence[DocumentHit], text: str) -> Sequence[DocumentHit]:
    """Of the sentences around a hit those of its paragraph; of a table its row alone."""
    if hit.tabular:
        return [chunk for chunk in near if chunk.id == hit.id]
    paragraph: list[DocumentHit] = []
    for chunk in near:
        if paragraph and APART.search(text, paragraph[-1].end, chunk.start):
            if paragraph[-1].id >= hit.id:
                break
            paragraph = []
        paragraph.append(chunk)
    return paragraph
