"""The person's documents: stored, ingested, searched and deleted without a trace."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app import database
from app.ingestion import EMBED_BATCH, Ingestion, Progress, Stage
from app.models import Chunk, Document, Status
from app.parsing import Kind, parse
from app.uploads import Incoming, clean_name
from dragon.errors import DocumentError, NotFoundError
from dragon.retrieval.chunking import Offsets, embedded_text
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from dragon.retrieval.relevance import MINIMUM_COSINE, Hit, relevance

logger = logging.getLogger(__name__)

_PARSERS = 2
"""Files parsed at once; each may take the memory that app.parsing allows."""


@dataclass(frozen=True)
class DocumentHit(Hit):
    """A chunk of an uploaded document: `title` is the file's name.

    `start` and `end` are character offsets in the document's parsed text; `page` counts from 1 and
    is None for what has no pages.
    """

    page: int | None
    start: int
    end: int


class Keeper(Protocol):
    """What is computed from documents ahead of the questions, and goes with them."""

    def start(self, documents: Iterable[str]) -> None:
        """Remove what is kept of any document but these."""

    def submit(self, document: str, texts: Sequence[str]) -> None:
        """A document can be found, and these are its chunks."""

    async def forget(self, document: str) -> None:
        """Remove all that is kept of a document."""

    async def close(self) -> None:
        """Stop."""


class DocumentStore:
    """Files under `data_dir`, rows in SQLite, vectors in FAISS, `kv`. SQLite is the truth.

    Use between `start` and `close`.
    """

    def __init__(
        self,
        data_dir: Path,
        sessions: async_sessionmaker[AsyncSession],
        embedder: TextEmbedder,
        tokenizer: Offsets,
        kv: Keeper,
    ) -> None:
        self._files = data_dir / "files"
        self._incoming = data_dir / "incoming"
        self._index_dir = data_dir / "index"
        # Vectors of another embedder mean nothing to this one: another file.
        self._index_path = self._index_dir / f"vectors-{embedder.fingerprint[:16]}.faiss"
        self._sessions = sessions
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._kv = kv
        self._index = VectorIndex(embedder.dim)
        self._changing = asyncio.Lock()
        self._parsing = asyncio.Semaphore(_PARSERS)

    async def start(self) -> None:
        """Clear what a kill left over, make the index agree with the rows, resume ingestion."""
        for directory in (self._files, self._incoming, self._index_dir):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        await database.forget_deleted(self._sessions)
        async with self._sessions() as session:
            documents = list(await session.scalars(select(Document)))
        await asyncio.to_thread(self._clear_leftovers, {document.id for document in documents})
        await self._reconcile_index()
        self._kv.start(document.id for document in documents)
        self._ingestion = Ingestion(
            self._files,
            self._sessions,
            self._embedder,
            self._tokenizer,
            self._index,
            self._index_path,
            self._kv.submit,
        )
        for document in sorted(documents, key=lambda each: each.created_at):
            if document.status == Status.UPLOADED:
                self._ingestion.submit(document)

    async def close(self) -> None:
        """Stop ingestion; what is unfinished is ingested again at the next start."""
        await self._ingestion.close()
        await self._kv.close()

    def _clear_leftovers(self, known: set[str]) -> None:
        for path in self._incoming.iterdir():
            path.unlink()
        for path in self._files.iterdir():
            if path.name not in known:
                shutil.rmtree(path)
        for path in self._index_dir.iterdir():
            if path != self._index_path:
                path.unlink()

    async def _reconcile_index(self) -> None:
        """Load the index; drop vectors that no chunk has, embed chunks that have no vector."""
        try:
            load = VectorIndex.load
            self._index = await asyncio.to_thread(load, self._index_path, self._embedder.dim)
        except IndexFileError:
            self._index = VectorIndex(self._embedder.dim)
        async with self._sessions() as session:
            processed = (
                select(Chunk.id)
                .join(Document, Document.id == Chunk.document_id)
                .where(Document.status == Status.PROCESSED)
            )
            wanted = set(await session.scalars(processed))
        present = set(self._index.ids)
        missing, surplus = sorted(wanted - present), sorted(present - wanted)
        if not missing and not surplus:
            return
        logger.warning("repairing the index: %d to add, %d to drop", len(missing), len(surplus))
        self._index.remove(surplus)
        for start in range(0, len(missing), EMBED_BATCH):
            batch = missing[start : start + EMBED_BATCH]
            async with self._sessions() as session:
                rows = await session.execute(
                    select(Chunk.id, Chunk.text, Chunk.context)
                    .where(Chunk.id.in_(batch))
                    .order_by(Chunk.id)
                )
                found = [(key, embedded_text(text, context)) for key, text, context in rows]
                ids, texts = zip(*found, strict=True)
            self._index.add(ids, await asyncio.to_thread(self._embedder.embed, texts))
        await asyncio.to_thread(self._index.save, self._index_path)

    def receive(self) -> Incoming:
        """A file to write an upload into: `async with store.receive() as incoming`."""
        return Incoming(self._incoming)

    async def add(
        self, name: str, content: bytes | Incoming, purpose: str = "user_data"
    ) -> Document:
        """Store a file and begin to ingest it. The same bytes under the same name change nothing.

        Raises DocumentError, and keeps nothing, if the file is empty, of no kind taken, encrypted,
        damaged or without text, and DocumentTooLargeError if it is over the limit.
        """
        if isinstance(content, bytes):
            async with self.receive() as incoming:
                await incoming.write(content)
                await incoming.close()
                return await self.add(name, incoming, purpose)
        name = clean_name(name)
        if not name:
            raise DocumentError("The file has no name.", param="file")
        if content.size == 0:
            raise DocumentError("The file is empty.", param="file")
        document_id = _document_id(name, content.sha256)
        if (existing := await self._find(document_id)) and existing.status != Status.ERROR:
            return existing
        text = content.path.with_name(content.path.name + ".text")
        try:
            async with self._parsing:
                kind = await parse(content.path, name, text)
            async with self._changing:
                return await self._keep(document_id, name, kind, purpose, content, text)
        except DocumentError as error:
            error.param = "file"
            raise
        finally:
            text.unlink(missing_ok=True)

    async def _keep(
        self, document_id: str, name: str, kind: Kind, purpose: str, content: Incoming, text: Path
    ) -> Document:
        """Move the file and its text into place, write the row, begin to ingest."""
        existing = await self._find(document_id)
        if existing and existing.status != Status.ERROR:
            return existing
        await asyncio.to_thread(self._move, self._files / document_id, content.path, text)
        document = Document(
            id=document_id,
            filename=name,
            purpose=purpose,
            kind=kind,
            bytes=content.size,
            created_at=existing.created_at if existing else int(time.time()),
            status=Status.UPLOADED,
            status_details=None,
        )
        async with self._sessions.begin() as session:
            document = await session.merge(document)
        self._ingestion.submit(document)
        return document

    @staticmethod
    def _move(directory: Path, original: Path, text: Path) -> None:
        directory.mkdir(exist_ok=True, mode=0o700)
        original.replace(directory / "original")
        text.replace(directory / "text")

    async def list(self) -> Sequence[Document]:
        """Every document, newest first."""
        newest_first = select(Document).order_by(Document.created_at.desc(), Document.id)
        async with self._sessions() as session:
            return (await session.scalars(newest_first)).all()

    async def count(self) -> int:
        """How many documents there are."""
        async with self._sessions() as session:
            return await session.scalar(select(func.count()).select_from(Document)) or 0

    async def _find(self, document_id: str) -> Document | None:
        async with self._sessions() as session:
            return await session.get(Document, document_id)

    async def get(self, document_id: str) -> Document:
        """One document. Raises NotFoundError."""
        document = await self._find(document_id)
        if document is None:
            raise NotFoundError(f"There is no file '{document_id}'.")
        return document

    async def content(self, document_id: str) -> Path:
        """The file as it was uploaded. Raises NotFoundError."""
        await self.get(document_id)
        path = self._files / document_id / "original"
        if not path.exists():
            raise NotFoundError(f"The bytes of file '{document_id}' are gone; upload it again.")
        return path

    async def watch(self, document_id: str) -> AsyncIterator[Progress]:
        """Progress of ingestion, to a last one with a status other than `uploaded`.

        Of a document that is done that one is all. It ends without one if the document is deleted
        or the store closes meanwhile. Raises NotFoundError.
        """
        # Asked first: once it is None, the row has the final word.
        progress = self._ingestion.watch(document_id)
        return progress or _final(await self.get(document_id))

    async def delete(self, document_id: str) -> None:
        """Remove row, chunks, vectors, KV and files, on disk too. Raises NotFoundError."""
        async with self._changing:
            await self.get(document_id)
            await self._ingestion.cancel(document_id)
            async with self._sessions.begin() as session:
                of_document = Chunk.document_id == document_id
                ids = list(await session.scalars(select(Chunk.id).where(of_document)))
                await session.execute(delete(Document).where(Document.id == document_id))
            if self._index.remove(ids):
                await asyncio.to_thread(self._index.save, self._index_path)
            await self._kv.forget(document_id)
            if (directory := self._files / document_id).exists():
                await asyncio.to_thread(shutil.rmtree, directory)
            await database.forget_deleted(self._sessions)

    async def search(
        self, query: str, k: int, minimum_cosine: float = MINIMUM_COSINE
    ) -> Sequence[DocumentHit]:
        """The chunks nearest to the query, best first: at most k, and only relevant ones."""
        (vector,) = await asyncio.to_thread(self._embedder.embed, [query])
        nearest = await asyncio.to_thread(self._index.search, vector, k)
        scores = {chunk_id: score for chunk_id, score in nearest if score >= minimum_cosine}
        async with self._sessions() as session:
            rows = await session.execute(
                select(Chunk, Document.filename)
                .join(Document, Document.id == Chunk.document_id)
                .where(Chunk.id.in_(scores))
            )
            found = {chunk.id: (chunk, filename) for chunk, filename in rows}
        vectors = self._index.vectors(list(scores))
        return [
            _hit(*found[chunk_id], score, vectors[chunk_id])
            for chunk_id, score in scores.items()
            if chunk_id in found and chunk_id in vectors
        ]


async def _final(document: Document) -> AsyncIterator[Progress]:
    yield Progress(Stage.INDEXED, Status(document.status), message=document.status_details)


def _document_id(name: str, sha256: str) -> str:
    return "file-" + hashlib.sha256(f"{sha256} {name}".encode()).hexdigest()[:24]


def _hit(chunk: Chunk, filename: str, score: float, vector: Vectors) -> DocumentHit:
    return DocumentHit(
        id=chunk.id,
        document=chunk.document_id,
        title=filename,
        text=chunk.text,
        score=score,
        relevance=relevance(score),
        vector=vector,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
    )
