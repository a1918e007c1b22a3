"""Takes in files: each becomes a document, or is recognised as one that is there already."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.expiry import Expiry
from app.documents.folders.keeping import content_identity
from app.documents.ingestion import Ingestion
from app.documents.uploads import NO_NAME, Incoming, arrived, clean_collection, clean_name, identity
from app.owners import acting, everyone
from app.storage.tables import Document, Status
from dragon.errors import DocumentError
from dragon.localizable import localizable

SEARCHED = frozenset({"user_data", "assistants"})
"""Purposes of files that are read and searched; OpenAI's others are for jobs, and only kept."""

_LATEST = text("UPDATE documents SET rowid = (SELECT max(rowid) + 1 FROM documents) WHERE id = :id")


@dataclass(frozen=True)
class Adding:
    """Stores files under `files`, received under `incoming`, and starts their ingestion."""

    files: Path
    incoming: Path
    sessions: async_sessionmaker[AsyncSession]
    ingestion: Ingestion
    expiry: Expiry
    changing: asyncio.Lock

    def receive(self) -> Incoming:
        """A temporary file for an upload: `async with store.receive() as incoming`."""
        return Incoming(self.incoming)

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

        The same bytes, name and collection are the same document, even if it has been moved into
        another collection since, or came from a watched folder; it then stays when the folder's
        file goes. With `replace` the other documents of that name and collection are deleted once
        this one can be found, and it is shared if one of them was. It is itself deleted
        `expires_after` seconds from now, or never, as the last upload says. A file for a purpose
        that is not in `SEARCHED` is only kept. Raises DocumentError if the file is empty or has no
        name, DocumentTooLargeError if it is over the limit; nothing is stored then.
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
        async with self.changing:
            document_id = identity(name, collection, content.sha256, acting())
            existing = await self._find(document_id)
            if existing is None:
                # One that was moved here has the id that it got without a collection.
                moved = await self._find(identity(name, "", content.sha256, acting()))
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
                    owner=acting(),
                    shared=replace and await self._is_shared(name, collection),
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
                await self.ingestion.cancel(document_id)
                return await self._keep(document, content)
            directory = self.files / document_id
            if not (directory / "original").exists():  # the stored file was lost
                await asyncio.to_thread(content.move, directory)
                await asyncio.to_thread(arrived, directory)
            await self._expire(existing, expires_at)
            if replace:
                await self._replace_with(existing)
            async with self.sessions() as session:
                return await session.get_one(Document, document_id)

    async def _is_shared(self, name: str, collection: str) -> bool:
        """Whether a document of one's own with this name and collection is shared."""
        named = Document.filename == name, Document.collection == collection
        shared = select(Document.id).where(*named, Document.owner == acting(), Document.shared)
        async with self.sessions() as session:
            return await session.scalar(shared.limit(1)) is not None

    async def _watched(self, name: str, collection: str, sha256: str) -> str | None:
        """The document of a watched file with this name and these bytes, if there is one."""
        same = Document.id == content_identity(name, collection, sha256, acting())
        kept = update(Document).where(same, Document.filename == name).values(by_hand=True)
        async with self.sessions.begin() as session:
            return await session.scalar(kept.returning(Document.id))

    async def _keep(self, document: Document, content: Incoming) -> Document:
        """Move the file into place, write the row, start ingestion."""
        directory = self.files / document.id
        await asyncio.to_thread(content.move, directory)
        async with self.sessions.begin() as session:
            document = await session.merge(document)
            await session.flush()
            await _rank_latest(session, document)
        await asyncio.to_thread(arrived, directory)
        if document.status == Status.UPLOADED:
            self.ingestion.submit(document)
        self.expiry.changed()
        return document

    async def _expire(self, document: Document, expires_at: int | None) -> None:
        """Have a document that is there already deleted at another time."""
        if document.expires_at != expires_at:
            async with self.sessions.begin() as session:
                chosen = update(Document).where(Document.id == document.id)
                await session.execute(chosen.values(expires_at=expires_at))
            self.expiry.changed()

    async def _replace_with(self, document: Document) -> None:
        """Delete the others of its name as soon as this one can be found."""
        async with self.sessions() as session:
            chosen = update(Document).where(Document.id == document.id)
            await session.execute(chosen.values(replaces=True))
            await _rank_latest(session, document)
            replaced = await self.ingestion.rows_replaced(session, document.id)
            await self.ingestion.commit_without(session, replaced)

    async def _find(self, document_id: str) -> Document | None:
        async with self.sessions() as session:
            return await session.get(Document, document_id)


async def _rank_latest(session: AsyncSession, document: Document) -> None:
    """A repeated upload counts as the newest, so that it replaces those uploaded since."""
    with everyone():
        await session.execute(_LATEST, {"id": document.id})
