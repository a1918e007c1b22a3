"""Adds files as documents, and recognises one that is stored already."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.erasure import Expiry
from app.documents.folders.keeping import content_identity
from app.documents.ingestion import Ingestion
from app.documents.uploads import (
    EMPTY,
    NO_NAME,
    Incoming,
    arrived,
    clean_collection,
    clean_name,
    identity,
)
from app.owners import acting, everyone
from app.storage.tables import Document, Status
from dragon.errors import DocumentError

SEARCHED = frozenset({"user_data", "assistants"})
"""Purposes of files that are searched; files for OpenAI's other purposes are only stored."""

_LATEST = text("UPDATE documents SET rowid = (SELECT max(rowid) + 1 FROM documents) WHERE id = :id")


@dataclass(frozen=True)
class Adding:
    """Stores files under `files`, and starts their ingestion."""

    files: Path
    sessions: async_sessionmaker[AsyncSession]
    ingestion: Ingestion
    expiry: Expiry
    changing: asyncio.Lock

    async def add(
        self,
        name: str,
        content: Incoming,
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
        name, collection = clean_name(name), clean_collection(collection)
        if not name:
            raise DocumentError(NO_NAME, param="file")
        if content.size == 0:
            raise DocumentError(EMPTY, param="file")
        async with self.changing:
            document_id = identity(name, collection, content.sha256, acting())
            existing = await self._find(document_id)
            if existing is None:
                # A document that was moved here has kept its id without a collection.
                moved = await self._find(identity(name, "", content.sha256, acting()))
                if moved is not None and moved.collection == collection:
                    existing, document_id = moved, moved.id
            searched = purpose in SEARCHED
            lasting = searched and expires_after is None
            if lasting and (watched := await self._watched(name, collection, content.sha256)):
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
            said: dict[str, object] = {"expires_at": expires_at}
            if replace:
                said["replaces"] = True
            async with self.sessions() as session:
                chosen = update(Document).where(Document.id == document_id)
                await session.execute(chosen.values(said))
                replaced = {}
                if replace:
                    await _rank_latest(session, document_id)
                    replaced = await self.ingestion.rows_replaced(session, document_id)
                await self.ingestion.commit_without(session, replaced)
                self.expiry.changed()
                return await session.get_one(Document, document_id)

    async def _is_shared(self, name: str, collection: str) -> bool:
        """Whether the current owner shares a document with this name and collection."""
        named = Document.filename == name, Document.collection == collection
        shared = select(Document.id).where(*named, Document.owner == acting(), Document.shared)
        async with self.sessions() as session:
            return await session.scalar(shared.limit(1)) is not None

    async def _watched(self, name: str, collection: str, sha256: str) -> str | None:
        """Mark a watched file's document with these bytes as uploaded; returns its id, if any."""
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
            await _rank_latest(session, document.id)
        await asyncio.to_thread(arrived, directory)
        if document.status == Status.UPLOADED:
            self.ingestion.submit(document)
        self.expiry.changed()
        return document

    async def _find(self, document_id: str) -> Document | None:
        async with self.sessions() as session:
            return await session.get(Document, document_id)


async def _rank_latest(session: AsyncSession, document: str) -> None:
    """Make a document the newest: a repeated upload replaces those uploaded since."""
    with everyone():
        await session.execute(_LATEST, {"id": document})
