"""The watched folders: added, listed with the state of their files, removed."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sqlalchemy import ColumnElement, case, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.folders.keeping import Keeping
from app.documents.folders.scan import opened
from app.documents.folders.watcher import FolderState, Watcher
from app.documents.uploads import MAX_COLLECTION_CHARACTERS, clean_collection
from app.owners import DEVICE, acting, acting_as
from app.storage.tables import Document, Status, WatchedFile, WatchedFolder
from dragon.errors import InvalidRequestError, NotFoundError
from dragon.localizable import localizable

log = logging.getLogger(__name__)

MOST = 16
"""The most folders: each has a thread that waits for changes."""


_WHY = {
    FileNotFoundError: localizable("folder.missing", "No such file or directory"),
    NotADirectoryError: localizable("folder.no_folder", "Not a directory"),
    PermissionError: localizable("folder.forbidden", "Permission denied"),
}
_NO_PATH = localizable("folder.no_path", "it is no path")


class FileState(StrEnum):
    """The state of a file of a watched folder."""

    WAITING = "waiting"  # not read yet
    WORDS = "words"  # found by its words, while vectors are made
    INDEXED = "indexed"
    UNREAD = "unread"  # it could not be read
    LEFT_OUT = "left_out"  # its document was deleted by somebody


@dataclass(frozen=True)
class Folder:
    """A watched folder, and how many of its files are in each state."""

    id: str
    path: str
    collection: str
    state: FolderState
    files: dict[FileState, int]


@dataclass(frozen=True)
class File:
    """A file of a watched folder; `problem` says why it could not be read."""

    path: str
    state: FileState
    problem: str | None
    document: str | None


_STATE: ColumnElement[str] = case(
    (WatchedFile.problem.is_not(None), FileState.UNREAD),
    (Document.status == Status.PROCESSED, FileState.INDEXED),
    (Document.kind != "", FileState.WORDS),
    (WatchedFile.document_id.is_not(None) | WatchedFile.sha256.is_(None), FileState.WAITING),
    else_=FileState.LEFT_OUT,
)


@dataclass
class Folders:
    """Follows folders from `start` to `close`. `data_dir`, resolved, is never looked into."""

    data_dir: Path
    sessions: async_sessionmaker[AsyncSession]
    keeping: Keeping
    _watchers: dict[str, Watcher] = field(default_factory=dict)
    _leaving: set[str] = field(default_factory=set)  # whose documents are being deleted
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Of their own: a drive that does not answer holds up its folder alone.
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MOST, "folder"))

    async def start(self, named: Iterable[Path] = ()) -> None:
        """Follow the folders that are known, and those that are named."""
        async with self.sessions() as session:
            for folder in await session.scalars(select(WatchedFolder)):
                self._follow(folder)
        for path in named:
            try:
                with acting_as(DEVICE):
                    if self._known(await asyncio.to_thread(_real, path, self.data_dir)) is None:
                        await self.add(path)
            except InvalidRequestError as error:  # it may be there at the next start
                log.warning("%s", error.message)

    async def close(self) -> None:
        """Stop following; folders and files stay known."""
        await asyncio.gather(*(watcher.close() for watcher in self._watchers.values()))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def add(self, path: Path, collection: str | None = None) -> str:
        """Follow a folder: its files are documents of a collection, by default of its name.

        If it is followed already, files that could not be read are tried again. Returns the
        folder's id. Raises InvalidRequestError.
        """
        async with self._changing:
            root = await asyncio.to_thread(_real, path, self.data_dir)
            name = clean_collection(root.name[:MAX_COLLECTION_CHARACTERS])
            known = self._known(root)
            if known is not None:
                if known.folder.id in self._leaving:
                    leaving = "{path} is being removed: add it again in a moment."
                    raise _refused("folder.leaving", leaving, path=root)
                if collection not in (None, watched := known.folder.collection):
                    other = "{path} is watched as the collection '{name}'."
                    raise _refused("folder.collection", other, path=root, name=watched)
                unread = update(WatchedFile).where(
                    WatchedFile.folder_id == known.folder.id, WatchedFile.problem.is_not(None)
                )
                async with self.sessions.begin() as session:
                    await session.execute(unread.values(size=None, changed_ns=None))
                known.look_again()
                return known.folder.id
            self._require_apart(root)
            folder = WatchedFolder(
                id=f"folder-{secrets.token_hex(8)}",
                path=str(root),
                collection=name if collection is None else clean_collection(collection),
            )
            async with self.sessions.begin() as session:
                session.add(folder)
            self._follow(folder)
            return folder.id

    async def remove(self, folder: str) -> None:
        """Stop following a folder, and delete its documents. Raises NotFoundError."""
        watcher = self._watcher(folder)
        self._leaving.add(folder)
        try:
            await watcher.close()
            await self.keeping.remove(folder)
            self._watchers.pop(folder, None)
        finally:
            self._leaving.discard(folder)

    async def list(self) -> Sequence[Folder]:
        """Every folder of whoever acts, by path."""
        counted = (
            select(WatchedFile.folder_id, _STATE, func.count())
            .outerjoin(Document, Document.id == WatchedFile.document_id)
            .group_by(WatchedFile.folder_id, _STATE)
        )
        # Taken before the counts: a folder that was looked at is listed with all of its files.
        states = [(each.folder, each.state) for each in self._own()]
        async with self.sessions() as session:
            rows = await session.execute(counted)
            counts = {(folder, FileState(state)): count for folder, state, count in rows}
        found = []
        for folder, looked in sorted(states, key=lambda each: each[0].path):
            files = {state: counts.get((folder.id, state), 0) for state in FileState}
            found.append(Folder(folder.id, folder.path, folder.collection, looked, files))
        return found

    async def get(self, folder: str) -> Folder:
        """One folder. Raises NotFoundError."""
        self._watcher(folder)
        return next(each for each in await self.list() if each.id == folder)

    async def files(
        self, folder: str, state: FileState | None, after: str, limit: int
    ) -> Sequence[File]:
        """Files of a folder by path, those after `after`. Raises NotFoundError."""
        self._watcher(folder)
        of_folder = (
            select(WatchedFile.path, _STATE, WatchedFile.problem, WatchedFile.document_id)
            .outerjoin(Document, Document.id == WatchedFile.document_id)
            .where(WatchedFile.folder_id == folder, WatchedFile.path > after)
            .order_by(WatchedFile.path)
            .limit(limit)
        )
        if state is not None:
            of_folder = of_folder.where(_STATE.is_(state))
        async with self.sessions() as session:
            rows = await session.execute(of_folder)
            return [File(path, FileState(at), why, document) for path, at, why, document in rows]

    def _follow(self, folder: WatchedFolder) -> None:
        watcher = Watcher(folder, self.keeping, self.data_dir, self._threads)
        self._watchers[folder.id] = watcher
        watcher.start()

    def _known(self, root: Path) -> Watcher | None:
        return next((each for each in self._own() if each.folder.path == str(root)), None)

    def _own(self) -> Iterator[Watcher]:
        return (each for each in self._watchers.values() if each.folder.owner == acting())

    def _watcher(self, folder: str) -> Watcher:
        found = next((each for each in self._own() if each.folder.id == folder), None)
        if found is None:
            gone = "There is no watched folder '{id}'."
            raise NotFoundError(localizable("folder.gone", gone, id=folder))
        return found

    def _require_apart(self, root: Path) -> None:
        """Raise InvalidRequestError if a file could be in two folders, or there are too many."""
        if len(self._watchers) >= MOST:
            most = "At most {count} folders are watched: watch one that holds several."
            raise _refused("folder.most", most, count=MOST)
        for each in self._watchers.values():
            other = Path(each.folder.path)
            if root.is_relative_to(other):
                inside = "{path} is in {other}, which is watched already."
                raise _refused("folder.inside", inside, path=root, other=other)
            if other.is_relative_to(root):
                around = "{path} holds {other}, which is watched: remove that one first."
                raise _refused("folder.around", around, path=root, other=other)


def _real(path: Path, apart: Path) -> Path:
    """A directory that may be followed, without links in its path. Raises InvalidRequestError."""
    try:
        expanded = path.expanduser()
        if not expanded.is_absolute():
            raise _refused("folder.whole", "Give the whole path of the folder, such as ~/Notes.")
        root = expanded.resolve(strict=True)
        if root.is_relative_to(apart):
            raise _refused("folder.own", "{path} is in the device's data directory.", path=root)
        with opened(root, apart) as folder, os.scandir(folder.descriptor):
            pass
    except (OSError, RuntimeError, ValueError) as error:
        why = next((why for kind, why in _WHY.items() if isinstance(error, kind)), None)
        why = why or getattr(error, "strerror", None) or _NO_PATH
        closed = "{path} cannot be watched: {why}."
        raise _refused("folder.closed", closed, path=path, why=why) from None
    return root


def _refused(code: str, english: str, /, **values: str | int | Path) -> InvalidRequestError:
    shown = {name: str(each) if isinstance(each, Path) else each for name, each in values.items()}
    return InvalidRequestError(localizable(code, english, **shown), param="path")
