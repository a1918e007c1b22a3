"""The device's vector index: in memory for search, in files of each document's own on disk."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiorwlock import RWLock
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.storage.tables import Chunk
from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from dragon.retrieval.vector_files import Segments

logger = logging.getLogger(__name__)


class DocumentIndex:
    """Vectors of documents' chunks, derived from the rows; `start` reconciles them.

    Searches hold `settled` shared and a replacement holds it exclusively, so that a search sees
    either the old document or the new one. `fingerprint` and `dim` are the embedder's.
    """

    def __init__(self, directory: Path, fingerprint: str, dim: int) -> None:
        self._directory = directory
        self._segments = Segments(directory, fingerprint, dim)
        self.vectors = VectorIndex(dim)
        self.settled = RWLock()

    async def start(self, sessions: async_sessionmaker[AsyncSession]) -> set[str]:
        """Load the vectors there are; returns the documents that lack some.

        What is damaged, or of chunks that are gone, is removed.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted: dict[str, set[int]] = defaultdict(set)
        async with sessions() as session:
            for document, chunk in await session.execute(select(Chunk.document_id, Chunk.id)):
                wanted[document].add(chunk)
        return await asyncio.to_thread(self._load, wanted)

    def _load(self, wanted: Mapping[str, set[int]]) -> set[str]:
        files = self._segments.restrict(wanted)
        lacking = set()
        for document, chunks in wanted.items():
            loaded = sum(self._load_part(path, chunks) for path in files.get(document, ()))
            if loaded < len(chunks):
                logger.warning("embedding again: %s lacks vectors", document)
                lacking.add(document)
        return lacking

    def _load_part(self, path: Path, chunks: set[int]) -> int:
        """Load a file if it is whole and up to date, else remove it; how many vectors it has."""
        try:
            ids, vectors = self._segments.read(path)
        except IndexFileError as error:
            logger.warning("vectors are made again: %s", error.message)
            path.unlink()
            return 0
        if not chunks.issuperset(ids):
            logger.warning("vectors are made again: %s is out of date", path)
            path.unlink()
            return 0
        self.vectors.add(ids, vectors)
        return len(ids)

    async def lacking(self, chunks: Sequence[int]) -> list[int]:
        """Those of the chunks that have no vector, in order."""
        held = await asyncio.to_thread(self.vectors.held, chunks)
        return [chunk for chunk in chunks if chunk not in held]

    async def add(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Write vectors [len(ids), dim] of some of a document's chunks; then they are searched."""
        await asyncio.to_thread(self._segments.write, document, ids, vectors)
        await asyncio.to_thread(self.vectors.add, ids, vectors)

    def hide(self, chunks: Mapping[str, Sequence[int]]) -> None:
        """Remove documents' chunks from search; `remove` deletes their files."""
        for ids in chunks.values():
            self.vectors.remove(ids)

    async def remove(self, document: str, ids: Sequence[int]) -> None:
        """Remove a document's vectors from memory and disk."""
        self.vectors.remove(ids)
        await asyncio.to_thread(self._segments.remove, document)
