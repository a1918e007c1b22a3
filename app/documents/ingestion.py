"""Background ingestion: parse, chunk, embed and index a stored file, with progress.

Ingestion resumes after a crash: a document that is not `processed`, with all of its chunks in the
index, is ingested again from its stored file at the next start.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.disk import cause_of, is_of_disk
from app.documents.erasure import Erasable, Erasure
from app.documents.index import DocumentIndex
from app.documents.jobs import Lanes, RunJob
from app.documents.parsing import parse
from app.documents.progress import Channel, Progress, Stage
from app.documents.readers.sniff import Kind
from app.storage import database
from app.storage.tables import Chunk, Document, Status, upload_order
from dragon.errors import DocumentError, DragonError
from dragon.retrieval import chunking
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors

logger = logging.getLogger(__name__)

# The most texts, and seconds, of one idle job: an urgent job waits for at most one.
EMBED_BATCH = 4
_JOB_SECONDS = 0.005
# Insert in batches, so that other writers wait for a batch and not for a whole document.
_INSERT_BATCH = 200
_RETRY_S, _MAX_RETRY_S = 0.5, 30.0
_WAITING = "The device's disk is full or fails; it goes on once there is room."


class DerivedStore(Erasable, Protocol):
    """A store of data computed from documents ahead of questions, such as document KV."""

    def start(self, documents: Iterable[str]) -> None:
        """Remove the data of any document not listed."""

    async def fill(
        self, document: str, texts: Sequence[str], progress: Callable[[int], None]
    ) -> None:
        """Compute and store the data of a document's chunks; `progress` receives the number done.

        Raises DragonError if it has to be left for later.
        """


@dataclass(frozen=True)
class Ingestion:
    """Ingests documents; each can be watched and cancelled."""

    files: Path
    sessions: async_sessionmaker[AsyncSession]
    embedder: TextEmbedder
    tokenizer: chunking.Offsets
    index: DocumentIndex
    kv: DerivedStore
    erasure: Erasure
    run_idle: RunJob
    parsing: Lanes = field(default_factory=lambda: Lanes(1 << 20))
    _indexing: Lanes = field(default_factory=lambda: Lanes(1 << 16))
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _channels: dict[str, Channel] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether no document is being ingested."""
        return not self._tasks

    def submit(self, document: Document) -> None:
        """Queue a stored document for ingestion, unless it is queued or running already."""
        if document.id in self._tasks:
            return
        channel = self._channels[document.id] = Channel()
        channel.publish(Progress(Stage.STORED))
        task = asyncio.create_task(self._run(document, channel), name=f"ingest {document.id}")
        self._tasks[document.id] = task
        task.add_done_callback(lambda _: self._forget(document.id))

    def _forget(self, document_id: str) -> None:
        del self._tasks[document_id]
        self._channels.pop(document_id).close()

    def watch(self, document_id: str) -> AsyncIterator[Progress] | None:
        """Progress from the first stage to the end; None if the document is not being ingested."""
        channel = self._channels.get(document_id)
        return channel.watch() if channel else None

    async def cancel(self, document_id: str) -> None:
        """Stop ingesting a document; once this returns nothing more is written for it."""
        if task := self._tasks.get(document_id):
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Stop all ingestion; unfinished documents are resumed at the next start."""
        for document_id in list(self._tasks):
            await self.cancel(document_id)

    async def _run(self, document: Document, channel: Channel) -> None:
        """Ingest a document, and begin again for as long as it is the disk that fails."""
        for attempt in itertools.count():
            try:
                await self._ingest(document, channel)
            except (OSError, OperationalError) as error:
                if not is_of_disk(error):
                    raise
                if not attempt:
                    logger.warning("%s waits for the disk: %s", document.id, cause_of(error))
                channel.publish(Progress(channel.stage, message=_WAITING))
                await asyncio.sleep(min(_RETRY_S * 2**attempt, _MAX_RETRY_S))
            else:
                return

    async def _ingest(self, document: Document, channel: Channel) -> None:
        """Ingest a document; its own faults are recorded, the disk's are raised."""
        try:
            async with self.sessions() as session:
                document = await session.get_one(Document, document.id)  # as it is by now
            if document.status != Status.PROCESSED:
                async with self.parsing.of(document.bytes):
                    kind, text = await self._parse(document, channel)
                async with self._indexing.of(len(text)):
                    await self._chunk_and_index(document, kind, text, channel)
            await self._cache(document, channel)
        except DocumentError as error:
            await self.fail(document.id, error.message)
            channel.publish(Progress(channel.stage, Status.ERROR, message=error.message))
        except Exception as error:
            if is_of_disk(error):
                raise
            logger.exception("ingestion of %s failed", document.id)
            message = "The document could not be ingested; the device's log says why. Try again."
            await self.fail(document.id, message)
            channel.publish(Progress(channel.stage, Status.ERROR, message=message))

    async def fail(self, document_id: str, message: str) -> None:
        """Record that ingestion failed, with the reason, and remove the document's chunks."""
        async with self.sessions.begin() as session:
            of_document = Chunk.document_id == document_id
            ids = list(await session.scalars(select(Chunk.id).where(of_document)))
            await session.execute(delete(Chunk).where(of_document))
            failed = {"status": Status.ERROR, "status_details": message, "chunks": 0}
            await self._update(session, document_id, **failed)
        await self.index.remove(document_id, ids)

    @staticmethod
    async def _update(session: AsyncSession, document_id: str, **values: object) -> None:
        await session.execute(update(Document).where(Document.id == document_id).values(**values))

    async def _parse(self, document: Document, channel: Channel) -> tuple[Kind, str]:
        """The document's kind and text; parsed once, even if a later stage is repeated."""
        directory = self.files / document.id
        path = directory / "text"
        kind = Kind(document.kind) if document.kind and path.exists() else None
        if kind is None:
            kind, note = await parse(directory / "original", document.filename, path)
            async with self.sessions.begin() as session:
                await self._update(session, document.id, kind=kind, status_details=note)
        text = await asyncio.to_thread(lambda: path.read_bytes().decode())
        pages = text.count(chunking.PAGE_BREAK) + 1
        channel.publish(Progress(Stage.PARSED, done=pages, total=pages))
        return kind, text

    async def _chunk_and_index(
        self, document: Document, kind: Kind, text: str, channel: Channel
    ) -> None:
        chunks = await self._chunk(kind, text)
        ids = await self._store(document, kind, chunks)
        channel.publish(Progress(Stage.CHUNKED, done=len(ids), total=len(ids)))

        vectors = self.index.empty(len(ids))
        for start in range(0, len(ids), EMBED_BATCH):
            part = chunks[start : start + EMBED_BATCH]
            batch = [chunking.embedded_text(each.text, each.context) for each in part]
            done = start + len(batch)
            vectors[start:done] = await self.run_idle(partial(self.embedder.embed, batch))
            channel.publish(Progress(Stage.EMBEDDED, done=done, total=len(ids)))

        async def finish() -> None:
            await self.index.keep(document.id, ids, vectors)
            await self._publish(document, ids, vectors)
            # Otherwise one document in many pays for checkpointing the pages of all.
            with suppress(OperationalError):  # the log stays; the next one tries again
                await database.empty_log(self.sessions, wait_ms=0)

        await to_the_end(finish())
        channel.publish(Progress(Stage.INDEXED, Status.PROCESSED, len(ids), len(ids)))

    async def _chunk(self, kind: Kind, text: str) -> list[chunking.Sentence]:
        """The text's sentences, split in short idle jobs so that answers are not held up."""
        pages = text.split(chunking.PAGE_BREAK)
        found = chunking.each_sentence(pages, self.tokenizer, alone=kind.tabular)
        sentences: list[chunking.Sentence] = []
        while more := await self.run_idle(partial(_some, found)):
            sentences += more
        return sentences

    async def _store(
        self, document: Document, kind: Kind, chunks: Sequence[chunking.Sentence]
    ) -> list[int]:
        """Replace the document's chunks; returns their ids in order."""
        ids: list[int] = []
        statement = insert(Chunk).returning(Chunk.id, sort_by_parameter_order=True)
        async with self.sessions.begin() as session:
            await session.execute(delete(Chunk).where(Chunk.document_id == document.id))
        for start in range(0, len(chunks), _INSERT_BATCH):
            rows = [
                {
                    "document_id": document.id,
                    "text": each.text,
                    "context": each.context,
                    "page": each.page if kind.paged else None,
                    "start": each.start,
                    "end": each.end,
                }
                for each in chunks[start : start + _INSERT_BATCH]
            ]
            async with self.sessions.begin() as session:
                ids.extend(await session.scalars(statement, rows))
                await self._update(session, document.id, chunks=len(ids))
        return ids

    async def _publish(self, document: Document, ids: Sequence[int], vectors: Vectors) -> None:
        """Make the document searchable and hide those it replaces, in one step."""
        async with self.sessions() as session:
            await self._update(session, document.id, status=Status.PROCESSED)
            replaced = await self.rows_replaced(session, document.id)
            async with self.index.settled.writer:
                await session.commit()
                self.index.vectors.add(ids, vectors)
                self.index.hide(replaced)
        await self.erase(replaced)

    async def rows_replaced(self, session: AsyncSession, document_id: str) -> dict[str, list[int]]:
        """Delete the rows of the documents that a processed document replaces, for `erase`.

        Documents uploaded after it stay.
        """
        document = await session.get(Document, document_id, populate_existing=True)
        if document is None or not document.replaces or document.status != Status.PROCESSED:
            return {}
        document.replaces = False
        placed = await session.execute(select(upload_order).where(Document.id == document.id))
        others = await session.scalars(
            select(Document.id)
            .where(Document.filename == document.filename)
            .where(Document.collection == document.collection)
            .where(upload_order < placed.scalar_one())
        )
        return await self.erasure.rows(session, others.all())

    async def erase(self, chunks: dict[str, list[int]]) -> None:
        """Remove the files and derived data of documents whose rows are deleted."""
        for document_id in chunks:
            await self.cancel(document_id)
        await self.erasure.rest(chunks)

    async def _cache(self, document: Document, channel: Channel) -> None:
        async with self.sessions() as session:
            own = Chunk.document_id == document.id
            texts = list(await session.scalars(select(Chunk.text).where(own).order_by(Chunk.id)))

        def progress(done: int) -> None:
            channel.publish(Progress(Stage.CACHED, Status.PROCESSED, done, len(texts)))

        try:
            await self.kv.fill(document.id, texts, progress)
        except DragonError as error:
            logger.info("document KV is deferred: %s", error.message)
            return
        except Exception:  # answers compute missing rows themselves
            logger.exception("document KV of %s failed", document.id)
            return
        async with self.sessions.begin() as session:
            await self._update(session, document.id, cached=True)


def _some(found: Iterator[chunking.Sentence]) -> list[chunking.Sentence]:
    deadline = time.perf_counter() + _JOB_SECONDS
    taken = []
    for each in found:
        taken.append(each)
        if time.perf_counter() > deadline:
            break
    return taken
