"""Background ingestion of a stored file: it is read, cut into sentences, and embedded.

Sentences can be found by their words as soon as they are cut, and by their meaning once they are
embedded, which takes far longer. Only then are the documents deleted that this one replaces, since
it may fail or be cancelled before. Ingestion resumes after a crash: a document without a `kind` is
read again from its stored file, and any other goes on with the vectors it lacks.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import delete, exists, insert, or_, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.disk import cause_of, is_of_disk
from app.documents.erasure import Erasure
from app.documents.index import DocumentIndex
from app.documents.parsing import Batch, Looked, Parsing
from app.documents.readers.sniff import FileKind
from app.owners import act_as, acting
from app.storage import database
from app.storage.tables import Chunk, Document, Status, WatchedFile, upload_order
from dragon.errors import DocumentError
from dragon.inference.fairness import HOUSEHOLD, Household
from dragon.inference.kv_store import KVStore
from dragon.localizable import localizable

logger = logging.getLogger(__name__)

_CHUNKS = Chunk.metadata.tables[Chunk.__tablename__]  # without the ORM, in half the time

_HELD = exists().where(
    or_(WatchedFile.document_id == Document.id, WatchedFile.previous_id == Document.id)
)
_FEW_UNREAD = 8
_RETRY_S, _MAX_RETRY_S = 0.5, 30.0
_WAITING = localizable(
    "disk.waiting", "The device's disk is full or fails; it goes on once there is room."
)
_FAILED = localizable(
    "file.failed", "The document could not be ingested; the device's log says why. Try again."
)


class Phase(StrEnum):
    """Phases of ingestion: `chunked` is found by its words, `embedded` by its meaning, too."""

    STORED = "stored"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    INDEXED = "indexed"


@dataclass(frozen=True)
class Progress:
    """The progress of a stage: `done` of `total` pages when parsed, else of chunks.

    While a text is being cut, `total` is an estimate. `percent` and `seconds_left`, an estimate or
    None, are those of the stage.
    """

    stage: Phase
    status: Status = Status.UPLOADED
    done: int = 0
    total: int = 0
    message: str | None = None
    percent: int = 100
    seconds_left: float | None = None


async def final(document: Document) -> AsyncIterator[Progress]:
    """The single, final event of a document that is not being ingested."""
    yield ended(document)


def ended(document: Document) -> Progress:
    """The last event of a document's ingestion, with the message for the user, if any."""
    status, count = Status(document.status), document.chunks
    return Progress(Phase.INDEXED, status, count, count, document.status_details)


class Channel:
    """Broadcasts one document's progress; a slow watcher skips events and never queues them."""

    def __init__(self) -> None:
        self._stages: dict[Phase, Progress] = {}
        self._began = 0.0, 0  # when the stage began, and how much was done then
        self._changed = asyncio.Event()
        self._closed = False
        self.stage = Phase.STORED

    def publish(self, progress: Progress) -> None:
        """Publish to every watcher, with percent and estimate."""
        now = time.monotonic()
        if progress.stage not in self._stages:
            self._began = now, progress.done
        began, already = self._began
        left, fresh = progress.total - progress.done, progress.done - already
        if left > 0:
            seconds = round(left * (now - began) / fresh, 1) if fresh > 0 else None
            percent = 100 * progress.done // progress.total
            progress = replace(progress, percent=percent, seconds_left=seconds)
        self.stage = progress.stage
        self._stages[progress.stage] = progress
        self._wake()

    def close(self) -> None:
        """End every watcher's stream."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncIterator[Progress]:
        """Events from the first stage until the channel closes."""
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


@dataclass(frozen=True)
class Ingestion:
    """Ingests documents; each can be watched and cancelled."""

    files: Path
    sessions: async_sessionmaker[AsyncSession]
    index: DocumentIndex
    kv: KVStore
    erasure: Erasure
    parsing: Parsing = field(default_factory=Parsing)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _channels: dict[str, Channel] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)  # owners, by document

    @property
    def has_room(self) -> bool:
        """Whether a document that the current owner submits now will be read soon."""
        return [*self._unread.values()].count(acting()) < _FEW_UNREAD

    @property
    def idle(self) -> bool:
        """Whether no document is being ingested."""
        return not self._tasks

    def submit(self, document: Document) -> None:
        """Queue a stored document for ingestion, unless it is queued or running already."""
        if document.id in self._tasks:
            return
        channel = self._channels[document.id] = Channel()
        channel.publish(Progress(Phase.STORED))
        task = asyncio.create_task(self._run(document, channel), name=f"ingest {document.id}")
        self._tasks[document.id] = task
        if not document.kind:
            self._unread[document.id] = document.owner
        task.add_done_callback(lambda _: self._forget(document.id))

    def _forget(self, document_id: str) -> None:
        del self._tasks[document_id]
        self._unread.pop(document_id, None)
        self._channels.pop(document_id).close()

    def watch(self, document_id: str) -> AsyncIterator[Progress] | None:
        """Progress from the first stage to the end; None if the document is not being ingested."""
        channel = self._channels.get(document_id)
        return channel.watch() if channel else None

    async def cancel(self, document_id: str) -> None:
        """Stop ingesting a document: nothing more is written for it."""
        if task := self._tasks.get(document_id):
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Stop all ingestion; unfinished documents are resumed at the next start."""
        for document_id in list(self._tasks):
            await self.cancel(document_id)
        await self.parsing.close()

    async def _run(self, document: Document, channel: Channel) -> None:
        """Ingest a document, and try again while the disk fails."""
        act_as(document.owner)
        HOUSEHOLD.set(Household(document.owner))
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
            self.kv.admit(document.id)
            async with self.sessions() as session:
                document = await session.get_one(Document, document.id)  # as it is by now
            await self.index.place(document)
            if not document.kind:
                await self._read(document, channel)
            self._unread.pop(document.id, None)
            await self._embed(document, channel)
        except Exception as error:
            if is_of_disk(error):
                raise
            message: str = _FAILED
            if isinstance(error, DocumentError):
                message = error.message
            else:
                logger.exception("ingestion of %s failed", document.id)
            await self.fail(document.id, message)
            channel.publish(Progress(channel.stage, Status.ERROR, message=message))

    async def fail(self, document_id: str, message: str) -> None:
        """Record that ingestion failed, with the reason, and remove the document's chunks."""
        async with self.sessions.begin() as session:
            gone = delete(Chunk).where(Chunk.document_id == document_id).returning(Chunk.id)
            ids = list(await session.scalars(gone))
            failed = {"status": Status.ERROR, "status_details": message, "chunks": 0, "kind": ""}
            await _update(session, document_id, **failed)
        await self.index.remove(document_id, ids)

    async def _read(self, document: Document, channel: Channel) -> None:
        """Read the file and store its sentences, which can be found from then on."""
        count = 0

        async def take(batch: Batch | Looked) -> None:
            nonlocal count
            if isinstance(batch, Looked):
                channel.publish(Progress(Phase.PARSED, done=batch.page - 1, total=batch.of))
                return
            if not count:
                channel.publish(Progress(Phase.PARSED, done=batch.pages, total=batch.pages))
            rows = [{**vars(each), "document_id": document.id} for each in batch.sentences]
            count += len(rows)
            # A transaction that is cancelled would keep its lock on the database.
            await to_the_end(self._append(document.id, rows, count))
            expected = max(count, round(count * batch.length / rows[-1]["end"]))
            channel.publish(Progress(Phase.CHUNKED, done=count, total=expected))

        directory = self.files / document.id
        name, text = document.filename, directory / "text"
        read = await self.parsing.parse(directory / "original", name, text, take)
        title, note = read.properties.title, read.note and read.note.localizable
        properties = {name: said for name, said in asdict(read.properties).items() if said}
        values: dict[str, object]
        values = {"kind": read.kind, "status_details": note, "properties": properties or None}
        if title and is_delivered_mail(document, read.kind):
            values["filename"] = title
        await to_the_end(self._cut(document.id, **values))
        channel.publish(Progress(Phase.CHUNKED, done=count, total=count))

    async def _append(self, document_id: str, rows: list[dict[str, Any]], count: int) -> None:
        """Store sentences, up to number `count`; the first ones replace the document's old ones."""
        async with self.sessions.begin() as session:
            if len(rows) == count:
                await session.execute(delete(Chunk).where(Chunk.document_id == document_id))
            shared = await session.scalar(select(Document.shared).where(Document.id == document_id))
            await session.execute(insert(_CHUNKS), [{**row, "shared": shared} for row in rows])
            await _update(session, document_id, chunks=count)

    async def _cut(self, document_id: str, **read: object) -> None:
        """Record that all sentences are there: they replace what its watched files held before."""
        async with self.sessions() as session:
            await _update(session, document_id, **read)
            await self.commit_without(session, await _superseded(session, document_id))

    async def commit_without(self, session: AsyncSession, documents: Sequence[str]) -> None:
        """Delete documents, if any, commit the transaction, and erase them."""
        if not (gone := await self.erasure.rows(session, documents)):
            return await session.commit()
        async with self.index.settled.writer:
            await session.commit()
            self.index.hide(gone)
        for document_id in gone:
            await self.cancel(document_id)
        return await self.erasure.rest(gone)

    async def _publish(self, document_id: str) -> Document:
        """Mark a document as processed and hide those it replaces, in one step; returns it."""
        async with self.sessions() as session:
            await _update(session, document_id, status=Status.PROCESSED)
            await self.commit_without(session, await self.replaced(session, document_id))
        # Otherwise one document in many pays for checkpointing the pages of all.
        with suppress(OperationalError):  # the log stays; the next one tries again
            await database.empty_log(self.sessions, wait_ms=0)
        async with self.sessions() as session:
            return await session.get_one(Document, document_id)

    async def _embed(self, document: Document, channel: Channel) -> None:
        async with self.sessions() as session:
            rank = await _rank(session, document.id)

        def progress(done: int, total: int) -> None:
            channel.publish(Progress(Phase.EMBEDDED, Status(document.status), done, total))

        await self.index.embed(document.id, rank, progress)

        ready = await to_the_end(self._publish(document.id))
        channel.publish(ended(ready))

    async def replaced(self, session: AsyncSession, document_id: str) -> Sequence[str]:
        """The earlier uploads that a processed document replaces; clears its `replaces`."""
        document = await session.get(Document, document_id, populate_existing=True)
        if document is None or not document.replaces or document.status != Status.PROCESSED:
            return ()
        document.replaces = False
        others = select(Document.id).where(
            Document.filename == document.filename,
            Document.collection == document.collection,
            Document.owner == document.owner,
            Document.by_hand,  # those of watched folders follow their files
            upload_order < await _rank(session, document_id),
        )
        return (await session.scalars(others)).all()


async def _update(session: AsyncSession, document_id: str, **values: object) -> None:
    await session.execute(update(Document).where(Document.id == document_id).values(**values))


async def _rank(session: AsyncSession, document_id: str) -> int:
    order = await session.execute(select(upload_order).where(Document.id == document_id))
    return order.scalar_one()


# Statements of a transaction, about the documents of watched folders.


def is_delivered_mail(document: Document, kind: str) -> bool:
    """Whether it is mail as it was delivered, in a file that a program named."""
    named = document.by_hand or document.filename.lower().endswith(".eml")
    return kind == FileKind.EMAIL and not named


async def orphans(session: AsyncSession, documents: Iterable[str | None]) -> Sequence[str]:
    """The documents among these that no file has any more, and nobody uploaded."""
    chosen = Document.id.in_({each for each in documents if each is not None})
    alone = select(Document.id).where(chosen, ~Document.by_hand, ~_HELD)
    return (await session.scalars(alone)).all()


async def _superseded(session: AsyncSession, document: str) -> Sequence[str]:
    """Put a document in place of what its files held before; returns those left orphaned."""
    shown = update(Document).where(Document.id == document, ~Document.by_hand)
    await session.execute(shown.values(replaces=False))
    files = WatchedFile.document_id == document, WatchedFile.previous_id.is_not(None)
    previous = (await session.scalars(select(WatchedFile.previous_id).where(*files))).all()
    await session.execute(update(WatchedFile).where(*files).values(previous_id=None))
    return await orphans(session, previous)
