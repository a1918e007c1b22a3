"""A device's document store that watches a folder, and what tests ask of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.documents.folders import watcher
from app.documents.folders.folders import File, FileState, Folder
from app.documents.folders.watcher import FolderState as FolderState
from app.documents.store import DocumentStore
from app.storage.tables import Document
from tests.app.stores import opened

_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Watched:
    """A store, its data directory, and the folder that it watches."""

    store: DocumentStore
    data: Path
    root: Path
    id: str

    async def folder(self) -> Folder:
        return await self.store.folders.get(self.id)

    async def files(self) -> dict[str, File]:
        found = await self.store.folders.files(self.id, None, "", 10_000)
        return {file.path: file for file in found}

    async def states(self) -> dict[str, FileState]:
        return {path: file.state for path, file in (await self.files()).items()}

    async def names(self) -> list[str]:
        return sorted(document.filename for document in await self.store.list())

    async def state(self) -> FolderState:
        return (await self.folder()).state

    async def settled(self, **states: FileState) -> None:
        """Return once the folder's files are these in these states; `__` stands for a dot."""
        await becomes({path.replace("__", "."): each for path, each in states.items()}, self.states)

    async def only(self, name: str, text: str) -> Document:
        """Write the folder's only file, and return its document once it is found."""
        (self.root / name).write_text(text)
        await self.settled(**{name: FileState.INDEXED})
        (document,) = await self.store.list()
        return document

    async def finds(self, query: str) -> list[str]:
        """The texts that a search finds."""
        return [hit.text for hit in await self.store.search(query, 5, relevant=False)]


async def becomes(wanted: object, ask: Callable[..., Awaitable[object]], *given: object) -> None:
    """Return once the answer is what is wanted."""
    deadline = time.monotonic() + _PATIENCE_S
    while (found := await ask(*given)) != wanted:
        assert time.monotonic() < deadline, f"this did not happen: {wanted}, but {found}"
        await asyncio.sleep(0.05)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    await becomes(True, condition)


@asynccontextmanager
async def watching(tmp_path: Path, collection: str | None = None) -> AsyncIterator[Watched]:
    """A store that watches the folder `Notes`, both as they were left."""
    root, data = tmp_path / "Notes", tmp_path / "data"
    root.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as often:
        often.setattr(watcher, "_SOON_S", 0.1)  # between looks while something is awaited
        async with opened(data) as store:
            identity = await store.folders.add(root, collection)
            yield Watched(store, data, root, identity)
