"""The device's vector index: in memory for search, one file per document on disk."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from aiorwlock import RWLock
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage.tables import Chunk, Document, Status
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from dragon.retrieval.vector_files import Segments

logger = logging.getLogger(__name__)

_BATCH = 256


class DocumentIndex:
    """Vectors of processed documents' chunks, derived from the rows; `start` reconciles them.

    Searches hold `settled` shared and a replacement holds it exclusively, so that a search sees
    either the old document or the new one.
    """

    def __init__(self, directory: Path, embedder: TextEmbedder) -> None:
        self._directory = directory
        self._embedder = embedder
        self._segments = Segments(directory, embedder.fingerprint, embedder.dim)
        self.vectors = VectorIndex(embedder.dim)
        self.settled = RWLock()

    async def start(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        """Load the vectors of every processed document; embed missing or damaged ones again."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with sessions() as session:
            processed = (
                select(Chunk.document_id, Chunk.id)
                .join(Document, Document.id == Chunk.document_id)
                .where(Document.status == Status.PROCESSED)
                .order_by(Chunk.id)
            )
            wanted: dict[str, list[int]] = defaultdict(list)
            for document, chunk in await session.execute(processed):
                wanted[document].append(chunk)
        await asyncio.to_thread(self._segments.restrict, set(wanted))
        unreadable = await asyncio.to_thread(self._load, wanted)
        for document in unreadable:
            await self._rebuild(document, wanted[document], sessions)

    def _load(self, wanted: dict[str, list[int]]) -> list[str]:
        """Load intact, current vectors; returns the documents whose vectors are not."""
        unreadable = []
        for document, ids in wanted.items():
            try:
                found, vectors = self._segments.read(document)
            except IndexFileError as error:
                logger.warning("embedding again: %s", error.message)
                unreadable.append(document)
                continue
            if found == ids:
                self.vectors.add(found, vectors)
            else:
                logger.warning("embedding again: the vectors of %s are out of date", document)
                unreadable.append(document)
        return unreadable

    async def _rebuild(
        self, document: str, ids: list[int], sessions: async_sessionmaker[AsyncSession]
    ) -> None:
        vectors = self.empty(len(ids))
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            async with sessions() as session:
                rows = await session.execute(
                    select(Chunk.text, Chunk.context).where(Chunk.id.in_(batch)).order_by(Chunk.id)
                )
            texts = [embedded_text(text, context) for text, context in rows]
            embedded = await asyncio.to_thread(self._embedder.embed, texts)
            vectors[start : start + len(batch)] = embedded
        await self.keep(document, ids, vectors)
        self.vectors.add(ids, vectors)

    def empty(self, count: int) -> Vectors:
        """An uninitialised array for vectors, float32 [count, dim]."""
        return np.empty((count, self._embedder.dim), dtype=np.float32)

    async def keep(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Write a document's vectors, float32 [len(ids), dim], to disk; not searchable yet."""
        await asyncio.to_thread(self._segments.write, document, ids, vectors)

    def hide(self, chunks: Mapping[str, Sequence[int]]) -> None:
        """Remove documents' chunks from search; `remove` deletes their files."""
        for ids in chunks.values():
            self.vectors.remove(ids)

    async def remove(self, document: str, ids: Sequence[int]) -> None:
        """Remove a document's vectors from memory and disk."""
        self.vectors.remove(ids)
        await asyncio.to_thread(self._segments.remove, document)
