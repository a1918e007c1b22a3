"""The device's vectors: in memory for search, in files of each document's own on disk."""

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

from app.owners import acting
from app.storage.tables import Chunk, Document
from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from dragon.retrieval.vector_files import Segments

logger = logging.getLogger(__name__)

_SHARED = None
"""The part of all documents that are shared; another is of one owner's others."""


class DocumentIndex:
    """Vectors of documents' chunks, derived from the rows; `start` reconciles them.

    Each owner's are a part by themselves, and so are those of shared documents: a search sees its
    own part and that. Searches hold `settled` shared and a replacement holds it exclusively, so
    that a search sees either the old document or the new one. `fingerprint` and `dim` are the
    embedder's.
    """

    def __init__(self, directory: Path, fingerprint: str, dim: int) -> None:
        self._directory = directory
        self._segments = Segments(directory, fingerprint, dim)
        self._parts: dict[str | None, VectorIndex] = defaultdict(lambda: VectorIndex(dim))
        self._place: dict[str, str | None] = {}  # by document
        self._moving = asyncio.Lock()
        self.settled = RWLock()

    async def start(self, sessions: async_sessionmaker[AsyncSession]) -> set[str]:
        """Load the vectors there are; returns the documents that lack some.

        What is damaged, or of chunks that are gone, is removed.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted: dict[str, set[int]] = defaultdict(set)
        async with sessions() as session:
            for document in await session.scalars(select(Document)):
                self._place[document.id] = _part_of(document)
            for identity, chunk in await session.execute(select(Chunk.document_id, Chunk.id)):
                wanted[identity].add(chunk)
        return await asyncio.to_thread(self._load, wanted)

    def _load(self, wanted: Mapping[str, set[int]]) -> set[str]:
        files = self._segments.restrict(wanted)
        lacking = set()
        for document, chunks in wanted.items():
            part = self._parts[self._place[document]]
            loaded = sum(self._load_part(path, chunks, part) for path in files.get(document, ()))
            if loaded < len(chunks):
                logger.warning("embedding again: %s lacks vectors", document)
                lacking.add(document)
        return lacking

    def _load_part(self, path: Path, chunks: set[int], part: VectorIndex) -> int:
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
        part.add(ids, vectors)
        return len(ids)

    # For searches: of what whoever acts may read.

    def search(
        self, vector: Vectors, k: int, allowed: Sequence[int] | None, hidden: Sequence[int]
    ) -> list[int]:
        """The ids of the `k` nearest chunks, best first, as `VectorIndex.search` finds them."""
        found = [
            hit for each in self._readable() for hit in each.search(vector, k, allowed, hidden)
        ]
        return [key for key, _ in sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]]

    def vectors(self, ids: Sequence[int]) -> dict[int, Vectors]:
        """The vectors [dim] of those of the chunks that have one."""
        return {key: found for each in self._readable() for key, found in each.vectors(ids).items()}

    def _readable(self) -> list[VectorIndex]:
        return [self._parts[each] for each in (acting(), _SHARED) if each in self._parts]

    # What ingestion and erasure do.

    async def place(self, document: Document, chunks: Sequence[int] = ()) -> None:
        """Have a document in the part that is right for it now, with its chunks' vectors."""
        async with self._moving:
            before = self._of(document.id)
            self._place[document.id] = _part_of(document)
            after = self._parts[_part_of(document)]
            if before is not None and before is not after:
                held = before.vectors(chunks)
                after.add(list(held), np.array([*held.values()]).reshape(-1, after.dim))
                before.remove(list(held))

    async def lacking(self, document: str, chunks: Sequence[int]) -> list[int]:
        """Those of a document's chunks that have no vector, in order."""
        part = self._parts[self._place[document]]
        held = await asyncio.to_thread(part.held, chunks)
        return [chunk for chunk in chunks if chunk not in held]

    async def add(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Write vectors [len(ids), dim] of some of a document's chunks; then they are searched."""
        await asyncio.to_thread(self._segments.write, document, ids, vectors)
        async with self._moving:
            part = self._parts[self._place[document]]
            await asyncio.to_thread(part.add, ids, vectors)

    def hide(self, chunks: Mapping[str, Sequence[int]]) -> None:
        """Remove documents' chunks from search; `remove` deletes their files."""
        for document, ids in chunks.items():
            if (part := self._of(document)) is not None:
                part.remove(ids)

    async def remove(self, document: str, ids: Sequence[int]) -> None:
        """Remove a document's vectors from memory and disk."""
        self.hide({document: ids})
        self._place.pop(document, None)
        await asyncio.to_thread(self._segments.remove, document)

    def _of(self, document: str) -> VectorIndex | None:
        if document not in self._place:
            return None
        return self._parts[self._place[document]]


def _part_of(document: Document) -> str | None:
    return _SHARED if document.shared else document.owner
