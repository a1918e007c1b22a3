"""Uploaded documents: storage, ingestion, search and complete deletion."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents import uploads
from app.documents.erasure import Erasure, blank_passages, expire
from app.documents.folders.folders import Folders
from app.documents.folders.keeping import CANCELLED, Keeping, content_identity
from app.documents.hits import EVERYTHING, Scope
from app.documents.index import DocumentIndex, RunJob
from app.documents.ingestion import Ingestion, Progress, final
from app.documents.parsing import Drawn
from app.documents.redaction import Redaction
from app.documents.search import Finder
from app.documents.tables.records import Shelf
from app.owners import acting, everyone
from app.storage.owned import require_own
from app.storage.purge import Purge
from app.storage.tables import Chunk, Document, Status, upload_order
from dragon.errors import DocumentError, NotFoundError
from dragon.inference.kv_store import KVStore
from dragon.localizable import localizable
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.judge import TextJudge
from dragon.whole_file import synchronise

log = logging.getLogger(__name__)

SEARCHED = frozenset({"user_data", "assistants"})
"""Purposes of files that are searched; files for OpenAI's other purposes are only stored."""

MAX_WINDOW = 100_000
"""Most characters of a document's text returned at once."""

_UNREAD = localizable("file.waiting", "The file is not read yet. Try again once it is.")
_LATEST = text("UPDATE documents SET rowid = (SELECT max(rowid) + 1 FROM documents) WHERE id = :id")


class DocumentStore:
    """Files under `data_dir`, rows in SQLite, and vectors in FAISS and `kv` derived from the rows.

    Use it between `start` and `close`. Embedder and judge run by `run_urgent` for questions, the
    embedder by `run_idle` for ingestion. Methods that take an id raise NotFoundError and, if they
    change something, NotYoursError for a document that is only shared.
    """

    def __init__(
        self,
        data_dir: Path,
        sessions: async_sessionmaker[AsyncSession],
        embedder: TextEmbedder,
        kv: KVStore,
        judge: TextJudge,
        *,
        run_urgent: RunJob = asyncio.to_thread,
        run_idle: RunJob = asyncio.to_thread,
    ) -> None:
        self._files = data_dir / "files"
        self._incoming = data_dir / "incoming"
        self._quarantine = data_dir / "quarantine"
        self._sessions = sessions
        self._kv = kv
        self._index = DocumentIndex(data_dir / "index", sessions, embedder, run_idle)
        self.purge = Purge(sessions)
        self._changing = asyncio.Lock()
        tables = Shelf(self._files)
        self._erasure = Erasure(
            self._files, self._index, kv, tables, self.purge, sessions, self._changing
        )
        self.settled = self._erasure.settled
        finder = Finder(sessions, self._index, tables, embedder, judge, run_urgent)
        self.search, self.said = finder.search, finder.said
        self.passages_about, self.closest = finder.passages, finder.closest
        self._ingestion = Ingestion(self._files, sessions, self._index, kv, self._erasure)
        self._expires = asyncio.Event()  # another document may expire next
        self._closing = asyncio.Event()
        self.receive = partial(uploads.Incoming, self._incoming)
        keeping = Keeping(self._files, self._incoming, sessions, self._ingestion, self._changing)
        self.folders = Folders(data_dir.resolve(), sessions, keeping)

    async def start(self, watch: Iterable[Path] = ()) -> None:
        """Remove leftovers of a crash, reconcile the index, resume ingestion, follow folders."""
        with everyone():
            for directory in (self._files, self._incoming):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            await asyncio.to_thread(synchronise, self._files.parent)
            await self.purge.now()
            oldest_first = list(reversed(await self.list()))
            known = {document.id for document in oldest_first}
            await asyncio.to_thread(self._clear_leftovers, known)
            lacking = await self._index.start()
            self._kv.restrict(known)
            for document in oldest_first:
                if document.status == Status.UPLOADED or document.id in lacking:
                    self._ingestion.submit(document)
            deleting = expire(self._sessions, self.delete, self._expires, self._closing)
            self._expiring = asyncio.create_task(deleting, name="expiry")
            await self.folders.start(watch)

    async def close(self) -> None:
        """Stop ingestion; unfinished documents are resumed at the next start."""
        await self.folders.close()
        self._closing.set()
        self._expires.set()
        try:
            await self._expiring
        finally:
            await self._ingestion.close()
            await self._erasure.close()

    def _clear_leftovers(self, known: set[str]) -> None:
        for path in self._incoming.iterdir():
            if path.is_file():
                path.unlink()
        for path in self._files.glob("*/*.partial"):
            path.unlink()
        for name in self._erasure.recover(known, self._quarantine):
            log.warning("the database does not know %s: put aside in %s", name, self._quarantine)

    async def add(
        self,
        name: str,
        content: uploads.Incoming,
        purpose: str = "user_data",
        collection: str = "",
        *,
        replace: bool = False,
        expires_after: int | None = None,
    ) -> Document:
        """Store a file and start its ingestion, which may end in `error`.

        The same bytes, name and collection are the same document, even if it was moved since or
        came from a watched folder; then it outlives the folder's file. With `replace`, others of
        that name and collection are deleted once this one can be found, and it is shared if one
        of them was. It expires `expires_after` seconds from now, or never, as its last upload
        says. Raises DocumentError for an empty or nameless file, and stores nothing then.
        """
        name, collection = uploads.clean_name(name), uploads.clean_collection(collection)
        if not name:
            raise DocumentError(uploads.NO_NAME, param="file")
        if content.size == 0:
            raise DocumentError(uploads.EMPTY, param="file")
        searched = purpose in SEARCHED
        expires_at = None if expires_after is None else int(time.time()) + expires_after
        async with self._changing:
            lasting = searched and expires_at is None
            there = await self._stored(name, collection, content.sha256, lasting=lasting)
            begun = there is not None and there.status != Status.ERROR
            if there is not None and begun and (there.purpose in SEARCHED or not searched):
                return await self._add_again(there.id, content, expires_at, replace=replace)
            document = _row(there, name, content, purpose, collection)
            document.replaces, document.expires_at = replace, expires_at
            # The task of a failed document may still be ending.
            await self._ingestion.cancel(document.id)
            directory = self._files / document.id
            await asyncio.to_thread(content.move, directory)
            async with self._sessions.begin() as session:
                if replace:
                    named = Document.filename == name, Document.collection == collection
                    own = select(Document.id).where(*named, Document.owner == acting())
                    shared = await session.scalar(own.where(Document.shared).limit(1))
                    document.shared = shared is not None
                document = await session.merge(document)
                await _rank_latest(session, document.id)
            await asyncio.to_thread(uploads.arrived, directory)
            if searched:
                self._ingestion.submit(document)
            self._expires.set()
            return document

    async def _add_again(
        self, document_id: str, content: uploads.Incoming, expires_at: int | None, *, replace: bool
    ) -> Document:
        directory = self._files / document_id
        if not (directory / "original").exists():  # the stored file was lost
            await asyncio.to_thread(content.move, directory)
            await asyncio.to_thread(uploads.arrived, directory)
        async with self._sessions() as session:
            document = await session.get_one(Document, document_id)
            document.expires_at = expires_at
            replaced: Sequence[str] = ()
            if replace:
                document.replaces = True
                await _rank_latest(session, document_id)
                replaced = await self._ingestion.replaced(session, document_id)
            await self._ingestion.commit_without(session, replaced)
        self._expires.set()
        return document

    async def _stored(
        self, name: str, collection: str, sha256: str, *, lasting: bool
    ) -> Document | None:
        """The document of an upload; `lasting`, a watched file's becomes an upload."""
        watched = Document.id == content_identity(name, collection, sha256, acting())
        kept = update(Document).where(watched, Document.filename == name).values(by_hand=True)
        async with self._sessions.begin() as session:
            known = await session.scalar(kept.returning(Document.id)) if lasting else None
            known = known or uploads.identity(name, collection, sha256, acting())
            if (document := await session.get(Document, known)) is not None:
                return document
            # A document that was moved here has kept its id without a collection.
            moved = await session.get(Document, uploads.identity(name, "", sha256, acting()))
            return moved if moved is not None and moved.collection == collection else None

    async def list(self) -> Sequence[Document]:
        """Every document, newest first."""
        newest_first = select(Document).order_by(Document.created_at.desc(), upload_order.desc())
        async with self._sessions() as session:
            return (await session.scalars(newest_first)).all()

    async def count(self) -> int:
        """How many documents there are."""
        async with self._sessions() as session:
            return await session.scalar(select(func.count()).select_from(Document)) or 0

    async def unread(self, scope: Scope = EVERYTHING) -> int:
        """How many documents in scope are still being ingested: parts may not be found yet."""
        if self._ingestion.idle:
            return 0
        waiting = select(func.count(Document.id)).where(Document.status == Status.UPLOADED)
        async with self._sessions() as session:
            return await session.scalar(scope.within(waiting)) or 0

    async def get(self, document_id: str) -> Document:
        """One document."""
        async with self._sessions() as session:
            document = await session.get(Document, document_id)
        if document is None:
            gone = "There is no file '{id}'."
            raise NotFoundError(localizable("file.gone", gone, id=document_id))
        return document

    async def own(self, document_id: str) -> Document:
        """A document that the current owner may change."""
        document = await self.get(document_id)
        require_own(document)
        return document

    async def share(self, document_id: str, *, shared: bool) -> Document:
        """Let all others read a document, or none: then its passages vanish from their answers."""
        of_document = Chunk.document_id == document_id
        async with self._changing:
            await self.own(document_id)
            async with self._sessions.begin() as session:
                for table, those in ((Document, Document.id == document_id), (Chunk, of_document)):
                    await session.execute(update(table).where(those).values(shared=shared))
                document = await session.get_one(Document, document_id)
                if not shared:
                    with everyone():
                        await blank_passages(session, document_id, but_of=document.owner)
                chunks = list(await session.scalars(select(Chunk.id).where(of_document)))
            await self._index.place(document, chunks)
            return document

    async def collections(self) -> Sequence[tuple[str, int]]:
        """Every collection that has a document, by name, and how many it has."""
        counts = select(Document.collection, func.count()).group_by(Document.collection)
        async with self._sessions() as session:
            rows = await session.execute(counts.order_by(Document.collection))
            return [(name, count) for name, count in rows]

    async def move(self, documents: Sequence[str], collection: str) -> None:
        """Put documents of the current owner into a collection; they keep their ids."""
        chosen = update(Document).where(Document.id.in_(documents))
        async with self._changing, self._sessions.begin() as session:
            await session.execute(chosen.values(collection=collection))

    async def content(self, document_id: str) -> BinaryIO:
        """The uploaded file, open for reading."""
        await self.get(document_id)
        path = self._files / document_id / "original"
        try:
            return await asyncio.to_thread(path.open, "rb")
        except FileNotFoundError:
            await self.get(document_id)  # deleted at this moment?
            message = localizable(
                "file.bytes", "The bytes of file '{id}' are gone; upload it again.", id=document_id
            )
            raise NotFoundError(message) from None

    async def picture(self, document_id: str, page: int, passage: str) -> Drawn:
        """Draw a page of a PDF, from 1. Raises DocumentError, OSError or TimeoutError."""
        with await self.content(document_id) as original:
            return await self._ingestion.parsing.draw(Path(original.name), page, passage)

    async def text(self, document_id: str) -> tuple[Document, str]:
        """A document and its parsed text. Raises DocumentError if it was not parsed."""
        document = await self.get(document_id)
        try:
            return document, await self._text(document)
        except (FileNotFoundError, DocumentError):
            await self.get(document_id)  # deleted at this moment?
            raise

    async def _text(self, document: Document) -> str:
        path = self._files / document.id / "text"
        if document.purpose not in SEARCHED:
            raise DocumentError(f"A file for the purpose '{document.purpose}' is not read.")
        if not document.kind or not path.exists():
            if document.status != Status.PROCESSED:  # only ingestion parses a new document
                why = document.status_details if document.status == Status.ERROR else None
                raise DocumentError(why or _UNREAD)
            with await self.content(document.id) as original:  # the parsed text was lost
                await self._ingestion.parsing.parse(Path(original.name), document.filename, path)
        return (await asyncio.to_thread(path.read_bytes)).decode()

    async def watch(self, document_id: str) -> AsyncIterator[Progress]:
        """Progress of ingestion; it ends early if the document is deleted or the store closed."""
        # Asked for before the row: once it is None, the row is final.
        progress = self._ingestion.watch(document_id)
        document = await self.get(document_id)
        return progress or final(document)

    async def cancel(self, document_id: str) -> Document:
        """Stop a document's ingestion."""
        async with self._changing:
            await self.own(document_id)
            await self._ingestion.cancel(document_id)
            if (await self.get(document_id)).status == Status.UPLOADED:
                await self._ingestion.fail(document_id, CANCELLED)
            return await self.get(document_id)

    async def retry(self, document_id: str) -> Document:
        """Restart ingestion of a document that failed or was cancelled."""
        async with self._changing:
            document = await self.own(document_id)
            if document.status == Status.ERROR:
                await self._ingestion.cancel(document_id)  # its task may still be ending
                async with self._sessions.begin() as session:
                    document = await session.get_one(Document, document_id)
                    document.status, document.status_details = Status.UPLOADED, None
                self._ingestion.submit(document)
            return document

    async def delete(self, document_id: str) -> None:
        """Remove row, chunks, vectors, KV and files, on disk too."""
        async with self._changing:
            await self.own(document_id)
            await self._ingestion.cancel(document_id)
            async with self._sessions.begin() as session:
                chunks = await self._erasure.rows(session, [document_id])
            await self._erasure.rest(chunks)

    async def redaction(self, document_id: str) -> Redaction:
        """The redaction of a document's words in what is stored."""
        await self.own(document_id)
        try:
            _, text = await self.text(document_id)
        except DocumentError:  # what could not be read was never quoted
            text = ""
        return Redaction(document_id, text, self._sessions, self.purge)


def _row(
    there: Document | None, name: str, content: uploads.Incoming, purpose: str, collection: str
) -> Document:
    """The row of an upload as none of it is read yet, in place of the one `there`, if any."""
    document = Document(
        id=uploads.identity(name, collection, content.sha256, acting()),
        owner=acting(),
        shared=False,
        filename=name,
        purpose=purpose,
        collection=collection,
        kind="",
        bytes=content.size,
        created_at=int(time.time()),
        status=Status.UPLOADED if purpose in SEARCHED else Status.PROCESSED,
        status_details=None,
        chunks=0,
    )
    if there is not None:
        document.id, document.created_at = there.id, there.created_at
        document.collection = there.collection
    return document


async def _rank_latest(session: AsyncSession, document: str) -> None:
    """Make a document the newest: a repeated upload replaces those uploaded since."""
    await session.flush()
    with everyone():
        await session.execute(_LATEST, {"id": document})
