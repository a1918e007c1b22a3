"""Ingestion: from a stored file to vectors in the index, in the background, with progress.

A document is either processed, all of its chunks in the index, or it is ingested again from its
stored file at the next start: nothing in between is relied upon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from sqlalchemy import delete, insert, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.models import Chunk, Document, Status
from app.parsing import Kind, parse
from dragon.errors import DocumentError
from dragon.retrieval import chunking
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import VectorIndex

logger = logging.getLogger(__name__)

# A search waits for at most one batch; larger ones are hardly faster.
EMBED_BATCH = 16
_INSERT_BATCH = 500


class Stage(StrEnum):
    """What has been done to a document, in this order."""

    STORED = "stored"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INDEXED = "indexed"


@dataclass(frozen=True)
class Progress:
    """A stage a document has reached. In `embedded`, `done` of `total` chunks are."""

    stage: Stage
    status: Status = Status.UPLOADED
    done: int = 0
    total: int = 0
    message: str | None = None


class Ingestion:
    """Ingests documents one after another; each can be watched and cancelled.

    `indexed` is told of every document that can be found from now on, and its chunks' texts.
    """

    def __init__(
        self,
        files: Path,
        sessions: async_sessionmaker[AsyncSession],
        embedder: TextEmbedder,
        tokenizer: chunking.Offsets,
        index: VectorIndex,
        index_path: Path,
        indexed: Callable[[str, Sequence[str]], None],
    ) -> None:
        self._files = files
        self._sessions = sessions
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._index = index
        self._index_path = index_path
        self._indexed = indexed
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._channels: dict[str, _Channel] = {}

    def submit(self, document: Document) -> None:
        """Ingest a stored document when its turn comes. Does nothing if it already waits."""
        if document.id in self._tasks:
            return
        channel = self._channels[document.id] = _Channel()
        channel.publish(Progress(Stage.STORED))
        task = asyncio.create_task(self._run(document, channel), name=f"ingest {document.id}")
        self._tasks[document.id] = task
        task.add_done_callback(lambda _: self._forget(document.id))

    def _forget(self, document_id: str) -> None:
        del self._tasks[document_id]
        self._channels.pop(document_id).close()

    def watch(self, document_id: str) -> AsyncIterator[Progress] | None:
        """Progress from the first stage on until it ends; None if the document is not at work."""
        channel = self._channels.get(document_id)
        return channel.watch() if channel else None

    async def cancel(self, document_id: str) -> None:
        """Stop ingesting a document; on return nothing more is written for it."""
        if task := self._tasks.get(document_id):
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Stop everything; what is unfinished is ingested again at the next start."""
        for document_id in list(self._tasks):
            await self.cancel(document_id)

    async def _run(self, document: Document, channel: _Channel) -> None:
        last = Progress(Stage.STORED)
        try:
            async with self._turn:
                async for last in self._ingest(document):
                    channel.publish(last)
        except DocumentError as error:
            channel.publish(await self._fail(document, last.stage, error.message))
        except Exception:
            logger.exception("ingestion of %s failed", document.id)
            message = "The document could not be ingested; the device's log says why. Try again."
            channel.publish(await self._fail(document, last.stage, message))

    async def _fail(self, document: Document, stage: Stage, message: str) -> Progress:
        async with self._sessions.begin() as session:
            await session.execute(delete(Chunk).where(Chunk.document_id == document.id))
            await session.execute(
                update(Document)
                .where(Document.id == document.id)
                .values(status=Status.ERROR, status_details=message)
            )
        return Progress(stage, Status.ERROR, message=message)

    async def _ingest(self, document: Document) -> AsyncIterator[Progress]:
        directory = self._files / document.id
        text_path = directory / "text"
        if not text_path.exists():
            await parse(directory / "original", document.filename, text_path)
        yield Progress(Stage.PARSED)

        text = await asyncio.to_thread(text_path.read_bytes)
        pages = text.decode().split(chunking.PAGE_BREAK)
        chunks = await asyncio.to_thread(chunking.sentences, pages, self._tokenizer)
        ids = await self._store(document, chunks)
        yield Progress(Stage.CHUNKED, total=len(ids))

        vectors = np.empty((len(ids), self._embedder.dim), dtype=np.float32)
        for start in range(0, len(ids), EMBED_BATCH):
            part = chunks[start : start + EMBED_BATCH]
            batch = [chunking.embedded_text(each.text, each.context) for each in part]
            done = start + len(batch)
            vectors[start:done] = await asyncio.to_thread(self._embedder.embed, batch)
            yield Progress(Stage.EMBEDDED, done=done, total=len(ids))

        # Not in a thread: a thread would go on after a cancel and add vectors of a deleted
        # document. It is a copy of memory.
        self._index.add(ids, vectors)
        await asyncio.to_thread(self._index.save, self._index_path)
        async with self._sessions.begin() as session:
            await session.execute(
                update(Document)
                .where(Document.id == document.id)
                .values(status=Status.PROCESSED, status_details=None)
            )
        text_path.unlink()
        self._indexed(document.id, [each.text for each in chunks])
        yield Progress(Stage.INDEXED, Status.PROCESSED, len(ids), len(ids))

    async def _store(self, document: Document, chunks: list[chunking.Sentence]) -> list[int]:
        """Replace the document's chunks; returns their ids in order."""
        paged = document.kind == Kind.PDF
        rows = [
            {
                "document_id": document.id,
                "text": each.text,
                "context": each.context,
                "page": each.page if paged else None,
                "start": each.start,
                "end": each.end,
            }
            for each in chunks
        ]
        ids: list[int] = []
        statement = insert(Chunk).returning(Chunk.id, sort_by_parameter_order=True)
        async with self._sessions.begin() as session:
            await session.execute(delete(Chunk).where(Chunk.document_id == document.id))
            for start in range(0, len(rows), _INSERT_BATCH):
                inserted = await session.scalars(statement, rows[start : start + _INSERT_BATCH])
                ids.extend(inserted)
        return ids


class _Channel:
    """Progress of one document for any number of watchers; a slow one skips, never queues up."""

    def __init__(self) -> None:
        self._stages: dict[Stage, Progress] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def publish(self, progress: Progress) -> None:
        self._stages[progress.stage] = progress
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncIterator[Progress]:
        seen: set[Progress] = set()
        while True:
            changed, closed = self._changed, self._closed
            for progress in [each for each in self._stages.values() if each not in seen]:
                seen.add(progress)
                yield progress
            if closed:
                return
            if changed is self._changed:
                await changed.wait()
