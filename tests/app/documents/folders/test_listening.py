"""What a watched folder hears of, and how little it takes to begin and to end that."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from watchfiles import Change

from app.documents.folders import scan, watcher
from app.documents.folders.folders import FileState
from app.documents.folders.scan import Identity, identity_of
from app.documents.folders.watcher import FolderState, Listener
from tests.app.documents.folders.watched import becomes, eventually, watching


class Heard(Listener):
    """Notes whatever the system tells of."""

    paths: list[str]

    def _matters(self, change: Change, path: str) -> bool:
        self.paths.append(path)
        return super()._matters(change, path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Notes/inner", "elsewhere/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "Notes" / "link").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "Notes"


async def heard(listener: Heard, root: Path, name: str) -> list[str]:
    """What it hears until this file has been written."""
    listener.paths = []
    (root / name).write_text(name)

    async def told() -> bool:
        return any(path.endswith(name) for path in listener.paths)

    await eventually(told)
    return listener.paths


async def test_nothing_is_heard_of_what_a_link_leads_to(root: Path) -> None:
    changed = asyncio.Event()

    async def identity() -> Identity:
        return identity_of(root, root / "data")

    listener = Heard(root, changed, identity)
    listener.paths = []
    listener.tell(scan.scan(root, root / "data").directories)
    running = asyncio.create_task(listener.run())
    await changed.wait()  # it has begun
    (root / "link" / "deep" / "there.txt").write_text("elsewhere")
    (root / "link" / "there.txt").write_text("elsewhere")
    assert not [path for path in await heard(listener, root, "inner/a.txt") if "there" in path]
    (root / "new").mkdir()
    listener.tell(scan.scan(root, root / "data").directories)
    changed.clear()
    await changed.wait()
    await heard(listener, root, "new/b.txt")
    listener.close()
    await running


async def test_a_name_that_is_no_text_makes_a_folder_deaf_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as the test may take: what is found is found by being heard of.
    monkeypatch.setattr("app.documents.folders.watcher._LATEST_S", 600.0)
    monkeypatch.setattr("app.documents.folders.watcher._UNHEARD_S", 600.0)
    monkeypatch.setattr(watcher, "_LATER_S", 600.0)
    look, pauses = watcher.Watcher._look, list[float]()

    async def noted(self: watcher.Watcher) -> float:
        pauses.append(await look(self))
        return pauses[-1]

    monkeypatch.setattr(watcher.Watcher, "_look", noted)
    async with watching(tmp_path) as watched:

        async def found(*names: str) -> None:
            """Return once these files are found, and none is looked for any more."""

            async def only_heard_of() -> bool:
                return {*names} == set(await watched.files()) and pauses[-1:] == [600.0]

            await eventually(only_heard_of)

        (watched.root / "a.txt").write_text("The spare key hangs in the barn.")
        await found("a.txt")
        Path(os.fsdecode(os.fsencode(watched.root) + b"/caf\xe9.txt")).write_text("Latin words.")
        await found("a.txt", "caf\\xe9.txt")
        (watched.root / "b.txt").write_text("The boat is in the barn.")
        await found("a.txt", "b.txt", "caf\\xe9.txt")


async def test_a_folder_with_more_directories_than_are_listened_to_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MOST_HEARD", 2)
    monkeypatch.setattr("app.documents.folders.watcher._UNHEARD_S", 0.1)
    async with watching(tmp_path) as watched:
        for name in ("a", "b", "c"):
            (watched.root / name).mkdir()
        (watched.root / "c" / "key.txt").write_text("The spare key hangs in the barn.")
        await watched.settled(**{"c/key__txt": FileState.INDEXED})


async def test_a_folder_that_is_too_large_says_so_and_is_removed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_DIRECTORIES", 3)
    async with watching(tmp_path) as watched:
        await watched.only("key.txt", "The spare key hangs in the barn.")
        for number in range(4):
            (watched.root / str(number)).mkdir()
        await becomes(FolderState.TOO_LARGE, watched.state)
        assert await watched.names() == ["key.txt"]  # what it had stays
        await watched.store.folders.remove(watched.id)
        assert await watched.names() == []


def test_a_scan_ends_when_it_is_told_to(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    looked: list[int] = []

    def stopped() -> bool:
        looked.append(1)
        return len(looked) > 2

    with pytest.raises(scan.ScanEndedError):
        scan.scan(tmp_path, tmp_path / "data", stopped)
