"""Uploaded documents: storage, ingestion, search and complete deletion."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.collections import Collections
from app.documents.embedding import Embedding
from app.documents.erasure import Erasure
from app.documents.expiry import Expiry
from app.documents.folders.folders import Folders
from app.documents.folders.keeping import CANCELLED, Keeping, content_identity
from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.documents.index import DocumentIndex
from app.documents.ingestion import DerivedStore, Ingestion
from app.documents.jobs import RunJob, in_thread
from app.documents.passages import Passages
from app.documents.progress import Progress, final
from app.documents.redaction import Redaction
from app.documents.search import Finder
from app.documents.summaries import Summaries
from app.documents.tables.shelf import Shelf
from app.documents.uploads import (
    NO_NAME,
    Incoming,
    arrived,
    clean_collection,
    clean_name,
    identity,
)
from app.storage.purge import Purge
from app.storage.tables import Document, Status, upload_order
from dragon.errors import DocumentError, NotFoundError
from dragon.localizable import localizable
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.reranker import TextReranker
from dragon.whole_file import synchronise

log = logging.getLogger(__name__)

MAX_WINDOW = 100_000
"""Most characters of a document's text returned at once."""

SEARCHED = frozenset({"user_data", "assistants"})
"""Purposes of files that are read and searched; OpenAI's others are for jobs, and only kept."""

UNREAD = localizable("file.waiting", "The file is not read yet. Try again once it is.")

# A repeated upload counts as the newest, so that it replaces those uploaded since.
_LATEST = text("UPDATE documents SET rowid = (SELECT max(rowid) + 1 FROM documents) WHERE id = :id")


class DocumentStore:
    """Files under `data_dir`, rows in SQLite, vectors in FAISS and `kv`, derived from the rows.

    Use between `start` and `close`. For questions embedder and reranker run by `run_urgent`, for
    ingestion the embedder runs by `run_idle`.
    """

    def __init__(
        self,
        data_dir: Path,
        sessions: async_sessionmaker[AsyncSession],
        embedder: TextEmbedder,
        kv: DerivedStore,
        reranker: TextReranker,
        *,
        run_urgent: RunJob = in_thread,
        run_idle: RunJob = in_thread,
    ) -> None:
        self._files = data_dir / "files"
        self._incoming = data_dir / "incoming"
        self._quarantine = data_dir / "quarantine"
        self._sessions = sessions
        self._kv = kv
        self._index = DocumentIndex(data_dir / "index", embedder.fingerprint, embedder.dim)
        self.purge = Purge(sessions)
        self._changing = asyncio.Lock()
        self.collections = Collections(sessions, self._changing)
        tables = Shelf(self._files)
        self._erasure = Erasure(
            self._files, self._index, kv, tables, self.purge, sessions, self._changing
        )
        summaries = Summaries(sessions, self._index, self._files)
        self._finder = Finder(
            sessions, self._index, tables, summaries, embedder, reranker, run_urgent
        )
        self._passages = Passages(self._finder, sessions, self._files)
        embedding = Embedding(sessions, embedder, self._index, run_idle)
        self._ingestion = Ingestion(
            self._files, sessions, self._index, embedding, kv, self._erasure
        )
        self._expiry = Expiry(sessions, self.delete)
        keeping = Keeping(
            self._files, self._incoming, sessions, self._ingestion, self._erasure, self._changing
        )
        self.folders = Folders(data_dir, sessions, keeping)

    async def start(self, watch: Iterable[Path] = ()) -> None:
        """Remove leftovers of a crash, reconcile the index with the rows, resume ingestion.

        The folders `watch` are followed, beside those that are known.
        """
        for directory in (self._files, self._incoming):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(synchronise, self._files.parent)
        await self.purge.now()
        oldest_first = list(reversed(await self.list()))
        known = {document.id for document in oldest_first}
        await asyncio.to_thread(self._clear_leftovers, known)
        lacking = await self._index.start(self._sessions)
        self._kv.restrict(known)
        for document in oldest_first:
            if document.status == Status.UPLOADED or document.id in lacking:
                self._ingestion.submit(document)
        self._expiry.start()
        await self.folders.start(watch)

    async def close(self) -> None:
        """Stop ingestion; unfinished documents are resumed at the next start."""
        await self.folders.close()
        await self._expiry.close()
        await self._ingestion.close()
        await self._erasure.close()

    async def settled(self) -> None:
        """Return once nothing is left of what was deleted."""
        await self._erasure.settled()

    def _clear_leftovers(self, known: set[str]) -> None:
        for path in self._incoming.iterdir():
            if path.is_file():
                path.unlink()
        for path in self._files.glob("*/*.partial"):
            path.unlink()
        for name in self._erasure.recover(known, self._quarantine):
            log.warning("the database does not know %s: put aside in %s", name, self._quarantine)

    def receive(self) -> Incoming:
        """A temporary file for an upload: `async with store.receive() as incoming`."""
        return Incoming(self._incoming)

    async def add(
        self,
        name: str,
        content: bytes | Incoming,
        purpose: str = "user_data",
        collection: str = "",
        *,
        replace: bool = False,
        expires_after: int | None = None,
    ) -> Document:
        """Store a file and start its ingestion, which may end in `error`.

        The same bytes, name and collection are the same document, also where it was moved into
        another collection since, or a watched folder brought it; it then stays when the folder's
        file goes. With `replace` the other
        documents of that name and collection are deleted once this one can be found. It is deleted
        itself `expires_after` seconds from now, or never: as its last upload says. What is not for
        `SEARCHED` purposes is only kept. Raises DocumentError if the file is empty or has no name,
        DocumentTooLargeError if it is over the limit; nothing is stored then.
        """
        if isinstance(content, bytes):
            async with self.receive() as incoming:
                await incoming.write(content)
                await incoming.close()
                return await self.add(
                    name,
                    incoming,
                    purpose,
                    collection,
                    replace=replace,
                    expires_after=expires_after,
                )
        name, collection = clean_name(name), clean_collection(collection)
        if not name:
            raise DocumentError(NO_NAME, param="file")
        if content.size == 0:
            raise DocumentError(
                localizable("file.empty", "The file is empty. Nothing was stored."), param="file"
            )
        async with self._changing:
            document_id = identity(name, collection, content.sha256)
            existing = await self._find(document_id)
            if existing is None:
                # One that was moved here has the id that it got without a collection.
                moved = await self._find(identity(name, "", content.sha256))
                if moved is not None and moved.collection == collection:
                    existing, document_id = moved, moved.id
            searched = purpose in SEARCHED
            if searched and expires_after is None:
                watched = await self._watched(name, collection, content.sha256)
                if watched is not None:
                    document_id, existing = watched, await self._find(watched)
            expires_at = None if expires_after is None else int(time.time()) + expires_after
            again = existing is not None and (
                existing.status == Status.ERROR or (searched and existing.purpose not in SEARCHED)
            )
            if existing is None or again:
                document = Document(
                    id=document_id,
                    filename=name,
                    purpose=purpose,
                    collection=existing.collection if existing else collection,
                    kind="",
                    bytes=content.size,
                    created_at=existing.created_at if existing else int(time.time()),
                    status=Status.UPLOADED if searched else Status.PROCESSED,
                    status_details=None,
                    chunks=0,
                    replaces=replace,
                    expires_at=expires_at,
                )
                # The task of a failed document may still be ending.
                await self._ingestion.cancel(document_id)
                return await self._keep(document, content)
            directory = self._files / document_id
            if not (directory / "original").exists():  # the stored file was lost
                await asyncio.to_thread(content.move, directory)
                await asyncio.to_thread(arrived, directory)
            await self._expire(existing, expires_at)
            if replace:
                await self._replace_with(existing)
            return await self.get(document_id)

    async def _watched(self, name: str, collection: str, sha256: str) -> str | None:
        """The document of a watched file with this name and these bytes, if there is one."""
        same = Document.id == content_identity(name, collection, sha256)
        kept = update(Document).where(same, Document.filename == name).values(by_hand=True)
        async with self._sessions.begin() as session:
            return await session.scalar(kept.returning(Document.id))

    async def _keep(self, document: Document, content: Incoming) -> Document:
        """Move the file into place, write the row, start ingestion."""
        directory = self._files / document.id
        await asyncio.to_thread(content.move, directory)
        async with self._sessions.begin() as session:
            document = await session.merge(document)
            await session.flush()
            await session.execute(_LATEST, {"id": document.id})
        await asyncio.to_thread(arrived, directory)
        if document.status == Status.UPLOADED:
            self._ingestion.submit(document)
        self._expiry.changed()
        return document

    async def _expire(self, document: Document, expires_at: int | None) -> None:
        """Have a document that is there already deleted at another time."""
        if document.expires_at != expires_at:
            async with self._sessions.begin() as session:
                chosen = update(Document).where(Document.id == document.id)
                await session.execute(chosen.values(expires_at=expires_at))
            self._expiry.changed()

    async def _replace_with(self, document: Document) -> None:
        """Delete the others of its name as soon as this one can be found."""
        async with self._sessions() as session:
            chosen = update(Document).where(Document.id == document.id)
            await session.execute(chosen.values(replaces=True))
            await session.execute(_LATEST, {"id": document.id})
            replaced = await self._ingestion.rows_replaced(session, document.id)
            await self._ingestion.commit_without(session, replaced)

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
        """How many documents in scope are still being taken in: parts may not be found yet."""
        if self._ingestion.idle:
            return 0
        waiting = select(func.count(Document.id)).where(Document.status == Status.UPLOADED)
        async with self._sessions() as session:
            return await session.scalar(scope.within(waiting)) or 0

    async def _find(self, document_id: str) -> Document | None:
        async with self._sessions() as session:
            return await session.get(Document, document_id)

    async def get(self, document_id: str) -> Document:
        """One document. Raises NotFoundError."""
        document = await self._find(document_id)
        if document is None:
            raise NotFoundError(
                localizable("file.gone", "There is no file '{id}'.", id=document_id)
            )
        return document

    async def content(self, document_id: str) -> BinaryIO:
        """The uploaded file, open for reading. Raises NotFoundError."""
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

    async def text(self, document_id: str) -> tuple[Document, str]:
        """A document and its parsed text, pages separated by form feeds.

        Raises NotFoundError, and DocumentError if it is not parsed yet or could not be.
        """
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
                raise DocumentError(why or UNREAD)
            with await self.content(document.id) as original:  # the parsed text was lost
                await self._ingestion.parsing.parse(Path(original.name), document.filename, path)
        return (await asyncio.to_thread(path.read_bytes)).decode()

    async def watch(self, document_id: str) -> AsyncIterator[Progress]:
        """Progress of ingestion; the last event has a status other than `uploaded`.

        A document already ingested yields only that event. The stream ends without one if the
        document is deleted or the store closes meanwhile. Raises NotFoundError.
        """
        # Checked before the row: once it is None, the row is final.
        progress = self._ingestion.watch(document_id)
        return progress or final(await self.get(document_id))

    async def cancel(self, document_id: str) -> Document:
        """Stop a document's ingestion. Raises NotFoundError."""
        async with self._changing:
            await self.get(document_id)
            await self._ingestion.cancel(document_id)
            if (await self.get(document_id)).status == Status.UPLOADED:
                await self._ingestion.fail(document_id, CANCELLED)
            return await self.get(document_id)

    async def retry(self, document_id: str) -> Document:
        """Restart ingestion of a document that failed or was cancelled. Raises NotFoundError."""
        async with self._changing:
            document = await self.get(document_id)
            if document.status == Status.ERROR:
                await self._ingestion.cancel(document_id)  # its task may still be ending
                async with self._sessions.begin() as session:
                    document = await session.get_one(Document, document_id)
                    document.status, document.status_details = Status.UPLOADED, None
                self._ingestion.submit(document)
            return document

    async def delete(self, document_id: str) -> None:
        """Remove row, chunks, vectors, KV and files, on disk too. Raises NotFoundError."""
        async with self._changing:
            await self.get(document_id)
            await self._ingestion.cancel(document_id)
            async with self._sessions.begin() as session:
                chunks = await self._erasure.rows(session, [document_id])
            await self._erasure.rest(chunks)

    async def redaction(self, document_id: str) -> Redaction:
        """A document's words in what is stored, to be redacted. Raises NotFoundError."""
        try:
            _, text = await self.text(document_id)
        except DocumentError:  # what could not be read was never quoted
            text = ""
        return Redaction(document_id, text, self._sessions, self.purge)

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> Sequence[DocumentHit]:
        """See Finder.search."""
        return await self._finder.search(query, k, scope, relevant=relevant)

    async def passages_about(
        self, query: str, k: int, scope: Scope = EVERYTHING
    ) -> Sequence[DocumentHit]:
        """See Passages.of."""
        return await self._passages.of(query, k, scope)

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> Sequence[DocumentHit]:
        """See Passages.closest."""
        return await self._passages.closest(query, k, scope)
