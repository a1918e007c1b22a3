"""The vectors of documents: made in the background, in files of each document, and searched."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from aiorwlock import RWLock
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.owners import acting
from app.storage.tables import Chunk, Document
from dragon.retrieval.chunking import embedded_text
from dragon.retrieval.embedder import Passage, TextEmbedder
from dragon.retrieval.index import IndexFileError, Segments, VectorIndex, Vectors

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SHARED = None
"""The part of shared documents; each other part is of one owner's own."""


# About the size of one idle job, in UTF-8: an urgent job waits for at most one.
_JOB_BYTES = 640
# Each sentence of a document with so few is embedded alone with its context: that costs little.
_SHORT = 8
# Sentences until a newer document may come first, and in a file: a kill costs one file at most.
_TURN, _PART = 64, 2048


class RunJob(Protocol):
    """Runs a short blocking function, such as an embedding, off the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class Turns:
    """A lock that the waiting task of the highest rank gets next."""

    def __init__(self) -> None:
        self._now: asyncio.Future[None] | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[None]:
        """Wait for the lock, and hold it."""
        mine = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-rank, next(self._arrival), mine))
        self._call_next()
        try:
            await mine
            yield
        finally:
            if self._now is mine:
                self._now = None
                # Later: a task that wants its next turn at once is waiting by then.
                asyncio.get_running_loop().call_soon(self._call_next)

    def _call_next(self) -> None:
        while self._now is None and self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():  # its task may have been cancelled
                self._now = called
                called.set_result(None)


class DocumentIndex:
    """Vectors of documents' chunks, derived from the rows; `start` reconciles them.

    Each owner's vectors are a part, and those of shared documents another: a search sees its
    owner's part and the shared one. Searches hold `settled` shared and a replacement holds it
    exclusively, so that a search sees either the old document or the new one.
    """

    def __init__(
        self,
        directory: Path,
        sessions: async_sessionmaker[AsyncSession],
        embedder: TextEmbedder,
        run_idle: RunJob,
    ) -> None:
        self._directory, self._sessions = directory, sessions
        self._embedder, self._run_idle, self._turns = embedder, run_idle, Turns()
        self._segments = Segments(directory, embedder.fingerprint, embedder.dim)
        self._parts: dict[str | None, VectorIndex] = defaultdict(lambda: VectorIndex(embedder.dim))
        self._place: dict[str, str | None] = {}  # by document
        self._moving = asyncio.Lock()
        self.settled = RWLock()

    async def start(self) -> set[str]:
        """Load the vectors that are whole and up to date; returns the documents that lack some."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted: dict[str, set[int]] = defaultdict(set)
        async with self._sessions() as session:
            for document in await session.scalars(select(Document)):
                self._place[document.id] = _part_of(document)
            for identity, chunk in await session.execute(select(Chunk.document_id, Chunk.id)):
                wanted[identity].add(chunk)
        return await asyncio.to_thread(self._load, wanted)

    def _load(self, wanted: Mapping[str, set[int]]) -> set[str]:
        files = self._segments.restrict(wanted)
        lacking = set()
        for document, chunks in wanted.items():
            part, loaded = self._parts[self._place[document]], 0
            for path in files.get(document, ()):
                try:
                    ids, vectors = self._segments.read(path, chunks)
                except IndexFileError as error:
                    logger.warning("vectors are made again: %s", error.message)
                    path.unlink()
                else:
                    part.add(ids, vectors)
                    loaded += len(ids)
            if loaded < len(chunks):
                logger.warning("embedding again: %s lacks vectors", document)
                lacking.add(document)
        return lacking

    # For searches, limited to what the current owner may read.

    def search(
        self, vector: Vectors, k: int, allowed: Sequence[int] | None, hidden: Sequence[int]
    ) -> list[int]:
        """The ids of the `k` nearest chunks, best first, as `VectorIndex.search` finds them."""
        hits = [hit for each in self._readable() for hit in each.search(vector, k, allowed, hidden)]
        return [key for key, _ in sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]]

    def vectors(self, ids: Sequence[int]) -> dict[int, Vectors]:
        """The vectors [dim] of the chunks that have one."""
        return {key: found for each in self._readable() for key, found in each.vectors(ids).items()}

    def _readable(self) -> list[VectorIndex]:
        return [self._parts[each] for each in (acting(), _SHARED) if each in self._parts]

    # For ingestion and erasure.

    async def place(self, document: Document, chunks: Sequence[int] = ()) -> None:
        """Move a document, with its chunks' vectors, to the part where it belongs now."""
        async with self._moving:
            place = _part_of(document)
            before = self._place.get(document.id, place)
            self._place[document.id] = place
            if before != place:
                held, after = self._parts[before].vectors(chunks), self._parts[place]
                after.add(list(held), np.array([*held.values()]).reshape(-1, after.dim))
                self._parts[before].remove(list(held))

    async def add(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Write vectors [len(ids), dim] of chunks of a document, and make them searchable."""
        await asyncio.to_thread(self._segments.write, document, ids, vectors)
        async with self._moving:
            part = self._parts[self._place[document]]
            await asyncio.to_thread(part.add, ids, vectors)

    def hide(self, chunks: Mapping[str, Sequence[int]]) -> None:
        """Remove documents' chunks from search; `remove` deletes their files."""
        for document, ids in chunks.items():
            if document in self._place:
                self._parts[self._place[document]].remove(ids)

    async def remove(self, document: str, ids: Sequence[int]) -> None:
        """Remove a document's vectors from memory and disk."""
        self.hide({document: ids})
        self._place.pop(document, None)
        await asyncio.to_thread(self._segments.remove, document)

    async def embed(self, document: str, rank: int, progress: Callable[[int, int], None]) -> None:
        """Embed what a document lacks, higher `rank` first; `progress` gets done and total."""
        own = select(Chunk.id).where(Chunk.document_id == document)
        ids = [row.id for row in await self._rows(own)]
        held = await asyncio.to_thread(self._parts[self._place[document]].held, ids)
        lacking = [chunk for chunk in ids if chunk not in held]
        done = len(held)
        progress(done, len(ids))
        for start in range(0, len(lacking), _PART):
            part = lacking[start : start + _PART]
            vectors = np.empty((len(part), self._embedder.dim), dtype=np.float32)
            for first in range(0, len(part), _TURN):
                some = part[first : first + _TURN]
                out = vectors[first : first + len(some)]
                async with self._turns.turn(rank):
                    await self._embed(some, out, together=len(ids) > _SHORT)
                done += len(some)
                progress(done, len(ids))
            await to_the_end(self.add(document, part, vectors))

    async def _rows(self, statement: Select[*tuple[Any, ...]]) -> Sequence[Any]:
        async with self._sessions() as session:
            # A query that is cancelled would leave its snapshot open.
            found = await to_the_end(session.execute(statement.order_by(Chunk.id)))
            return found.all()

    async def _embed(self, ids: Sequence[int], out: Vectors, *, together: bool) -> None:
        """Embed chunks into `out`, float32 [len(ids), dim]."""
        done = 0
        rows = await self._rows(select(Chunk.text, Chunk.context).where(Chunk.id.in_(ids)))
        for job in _jobs([(row.text, row.context) for row in rows]):
            work = partial(self._embedder.embed_passages, job)
            if not together:
                work = partial(self._embedder.embed, [embedded_text(*each) for each in job])
            out[done : done + len(job)] = await self._run_idle(work)
            done += len(job)


def _part_of(document: Document) -> str | None:
    return _SHARED if document.shared else document.owner


def _jobs(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    job: list[Passage] = []
    size = 0
    for text, context in passages:
        size += len(text.encode())
        if job and size > _JOB_BYTES:
            yield job
            job, size = [], len(text.encode())
        job.append((text, context))
    yield job
