"""Keeps documents in step with the files of watched folders; each change is one transaction.

A document belongs to a content, not to a path: a file that is moved keeps its document, and two
files with the same content in a collection share it. It is deleted with the last of them, unless
somebody uploaded it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.cancellation import to_the_end
from app.documents.folders.scan import Mark
from app.documents.ingestion import Ingestion, is_delivered_mail, orphans
from app.documents.readers.sniff import telling_suffix
from app.documents.uploads import Incoming, arrived, clean_name, document_id, identity
from app.owners import acting
from app.storage.tables import Document, Status, WatchedFile, WatchedFolder
from dragon.localizable import localizable

# Files forgotten, and noted, in one transaction, during which nobody else writes.
_AT_ONCE, _NOTED = 50, 500

_LEFT_OUT = WatchedFile.problem.is_(None) & WatchedFile.document_id.is_(None)

CANCELLED = localizable("file.cancelled", "It was cancelled. Retry it, or delete it.")


def content_identity(name: str, collection: str, sha256: str, owner: str) -> str:
    """The id of the document of all files with these bytes whose names tell the same type."""
    return document_id(f"{sha256} {collection}\0\0{telling_suffix(name)}", owner)


@dataclass(frozen=True)
class Keeping:
    """Stores the documents of watched files, has them ingested, and releases them."""

    files: Path
    incoming: Path
    sessions: async_sessionmaker[AsyncSession]
    ingestion: Ingestion
    changing: asyncio.Lock

    async def known(self, folder: str) -> dict[str, WatchedFile]:
        """The files of a folder by their paths, as they were read last."""
        async with self.sessions() as session:
            of_folder = select(WatchedFile).where(WatchedFile.folder_id == folder)
            # In parts, so that others are served in between.
            rows = await session.stream_scalars(of_folder.execution_options(yield_per=_NOTED))
            return {file.path: file async for file in rows}

    async def expect(self, folder: str, paths: Collection[str]) -> None:
        """Note that files are still to be read."""
        waiting = iter(paths)
        while some := list(itertools.islice(waiting, _NOTED)):
            async with self.sessions.begin() as session:
                rows = [{"folder_id": folder, "path": path} for path in some]
                await session.execute(insert(WatchedFile), rows)

    async def hold(self, folder: WatchedFolder, path: str, data: bytes, mark: Mark) -> None:
        """Update a file's document to its content. Raises StorageError without room."""
        async with self.changing:
            await to_the_end(self._hold(folder, path, data, mark))

    async def _hold(self, folder: WatchedFolder, path: str, data: bytes, mark: Mark) -> None:
        digest, name = await asyncio.to_thread(hashlib.sha256, data), _name(path)
        sha256 = digest.hexdigest()
        async with self.sessions() as session:
            file = await session.get_one(WatchedFile, (folder.id, path))
            same = select(WatchedFile.path).where(
                WatchedFile.folder_id == folder.id, WatchedFile.sha256 == sha256, _LEFT_OUT
            )
            twin = await session.scalar(same.limit(1))
            left_out = twin is not None or _is_left_out(file)
            document = None if left_out else await _stored(session, name, folder.collection, sha256)
        read = {"sha256": sha256, "problem": None, **vars(mark)}
        if document is not None or left_out:
            return await self._point(file, read, None if document is None else document.id)
        document = Document(
            id=content_identity(name, folder.collection, sha256, acting()),
            filename=name,
            collection=folder.collection,
            bytes=mark.size,
            by_hand=False,
        )
        async with Incoming(self.incoming) as incoming:
            await incoming.write(data)
            await incoming.close()
            await asyncio.to_thread(incoming.move, self.files / document.id)
        await self._point(file, read, document.id, document)
        await asyncio.to_thread(arrived, self.files / document.id)
        return self.ingestion.submit(document)

    async def _point(
        self,
        file: WatchedFile,
        read: dict[str, object],
        document: str | None,
        new: Document | None = None,
    ) -> None:
        """Note what was read of a file and its document, new or not; release its earlier ones."""
        chosen = WatchedFile.folder_id == file.folder_id, WatchedFile.path == file.path
        async with self.sessions() as session:
            await session.execute(update(WatchedFile).where(*chosen).values(read))
            file = await session.get_one(WatchedFile, (file.folder_id, file.path))
            had = file.document_id, file.previous_id
            if new is not None:
                # If a file's earlier content was shared, so is this.
                shared = select(Document.id).where(Document.id.in_(had), Document.shared)
                new.shared = await session.scalar(shared.limit(1)) is not None
                session.add(new)
                await session.flush()
            file.document_id, file.previous_id = document, None
            if document is not None:
                held = await session.get_one(Document, document)
                if not held.kind:  # searches find the earlier one while this is being read
                    found = select(Document.id).where(Document.id.in_(had), Document.kind != "")
                    earlier = had[1] if document == had[0] else await session.scalar(found.limit(1))
                    file.previous_id = earlier
                if file.previous_id is not None and not held.by_hand:
                    held.replaces = True
                if not (held.by_hand or is_delivered_mail(held, held.kind)):
                    held.filename = _name(file.path)
            await session.flush()
            await self.ingestion.commit_without(session, await orphans(session, had))

    async def refuse(self, file: WatchedFile, problem: str, mark: Mark | None) -> None:
        """Note why a file cannot be read; without a mark, or when it changes, it is tried again."""
        read: dict[str, object] = {"problem": None if _is_left_out(file) else problem}
        read |= vars(mark) if mark else {"size": None, "changed_ns": None}
        async with self.changing:
            await to_the_end(self._point(file, read, None))

    async def forget(self, folder: str, paths: Iterable[str]) -> None:
        """Forget files that are not there any more, a few at a time."""
        waiting = iter(paths)
        while some := list(itertools.islice(waiting, _AT_ONCE)):
            async with self.changing:
                await to_the_end(self._forget(folder, some))

    async def remove(self, folder: str) -> None:
        """Forget a folder with all of its files."""
        unread = delete(WatchedFile).where(
            WatchedFile.folder_id == folder,
            WatchedFile.document_id.is_(None),
            WatchedFile.previous_id.is_(None),
        )
        async with self.sessions.begin() as session:
            await session.execute(unread)
        await self.forget(folder, await self.known(folder))
        async with self.sessions.begin() as session:
            await session.execute(delete(WatchedFolder).where(WatchedFolder.id == folder))

    async def _forget(self, folder: str, paths: Sequence[str]) -> None:
        gone = delete(WatchedFile).where(
            WatchedFile.folder_id == folder, WatchedFile.path.in_(paths)
        )
        had = gone.returning(WatchedFile.document_id, WatchedFile.previous_id)
        async with self.sessions() as session:
            documents = {each for row in await session.execute(had) for each in row}
            left = await orphans(session, documents)
            for each in documents.difference(left, (None,)):
                await _name_as_files(session, each)
            await session.flush()
            await self.ingestion.commit_without(session, left)

    async def settle(self, folder: str) -> bool:
        """Note failed documents as problems of their files; returns whether some are unread yet."""
        join = WatchedFile.document_id == Document.id
        failed = select(WatchedFile, Document.status_details).join(Document, join)
        failed = failed.where(WatchedFile.folder_id == folder, Document.status == Status.ERROR)
        unread = select(Document.id).join(WatchedFile, join).where(Document.kind == "")
        unread = unread.where(WatchedFile.folder_id == folder, Document.status == Status.UPLOADED)
        async with self.changing:
            async with self.sessions() as session:
                files = (await session.execute(failed)).all()
                waiting = await session.scalar(unread.limit(1)) is not None
            for file, details in files:
                problem = None if details == CANCELLED else details
                await to_the_end(self._point(file, {"problem": problem}, None))
        return waiting


def _name(path: str) -> str:
    """A document's name: its file's, without what would be a drive or directories on Windows."""
    return clean_name(PurePosixPath(path).name)


def _is_left_out(file: WatchedFile) -> bool:
    """Whether somebody deleted its document."""
    return file.sha256 is not None and file.problem is None and file.document_id is None


async def _stored(
    session: AsyncSession, name: str, collection: str, sha256: str
) -> Document | None:
    """The document of a content, if any: somebody's upload, or another file's."""
    uploaded = await session.get(Document, identity(name, collection, sha256, acting()))
    if uploaded is not None and uploaded.expires_at is None and uploaded.purpose == "user_data":
        return uploaded
    return await session.get(Document, content_identity(name, collection, sha256, acting()))


async def _name_as_files(session: AsyncSession, identity: str) -> None:
    """Name a document after a file that still has it; an upload keeps its name."""
    document = await session.get_one(Document, identity)
    if document.by_hand or is_delivered_mail(document, document.kind):
        return
    left = select(WatchedFile.path).where(WatchedFile.document_id == identity)
    names = sorted(map(_name, await session.scalars(left)))
    if names and document.filename not in names:
        document.filename = names[0]
