"""Whoever may rename and link on the way to a folder, or in it, leads no look elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.documents.folders.scan import Reader, content_of, opened, scan
from dragon.errors import InvalidRequestError
from tests.app.documents.folders.watched import FolderState, eventually, watching
from tests.app.stores import opened as store_opened

LINUX = pytest.mark.skipif(not os.path.ismount("/proc"), reason="only Linux makes up files")
DIARY = "The combination of the safe is 31-7-12."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder `ben/notes`, and a diary that is another's."""
    for name, text in (("ben/notes/inner/a.txt", "Mine."), ("anna/a.txt", DIARY)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def replaced(path: Path, other: Path) -> None:
    """Move a directory away, and have a link in its place."""
    path.rename(path.with_name(f"{path.name}.away"))
    path.symlink_to(other)


@pytest.mark.parametrize("replace", ["ben", "ben/notes"])
def test_a_link_on_the_way_to_a_folder_is_not_followed(home: Path, replace: str) -> None:
    (home / "anna" / "notes").mkdir()
    (home / "anna" / "notes" / "b.txt").write_text(DIARY)
    replaced(home / replace, home / "anna")
    with pytest.raises(OSError, match="Not a directory"):
        scan(home / "ben" / "notes", home / "data")
    with pytest.raises(OSError, match="Not a directory"):
        content_of(home / "ben" / "notes", home / "data", "a.txt")


def test_a_directory_that_becomes_a_link_before_it_is_looked_into(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, is_dir = home / "ben" / "notes", os.scandir
    looked: list[object] = []

    def swapped_behind_it(where: int) -> object:
        found = is_dir(where)
        if len(looked) == 1:  # the folder is listed, and what is in it is looked into next
            with found:
                entries = list(found)
            replaced(notes / "inner", home / "anna")
            return _Entries(entries)
        looked.append(where)
        return found

    monkeypatch.setattr(os, "scandir", swapped_behind_it)
    found = scan(notes, home / "data")
    assert found.files == {}
    assert found.closed == ["inner/"]


class _Entries(list["os.DirEntry[str]"]):
    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_a_directory_that_becomes_a_link_before_its_file_is_read(home: Path) -> None:
    notes = home / "ben" / "notes"
    (path, _) = scan(notes, home / "data").files["inner/a.txt"]
    content = content_of(notes, home / "data", path)
    assert content is not None
    assert content[0] == b"Mine."
    replaced(notes / "inner", home / "anna")
    with pytest.raises(OSError, match="Not a directory"):
        content_of(notes, home / "data", path)


def test_rules_are_read_from_no_link_and_no_pipe(home: Path) -> None:
    notes = home / "ben" / "notes"
    (home / "rules").write_text("*\n")
    (notes / ".gitignore").symlink_to(home / "rules")
    os.mkfifo(notes / ".dragonignore")
    assert list(scan(notes, home / "data").files) == ["inner/a.txt"]


@pytest.mark.parametrize("moved", ["ben/notes/mine", "ben/notes"])
def test_the_devices_own_data_is_not_read_wherever_it_is_moved(home: Path, moved: str) -> None:
    data, notes = home / "data", home / "ben" / "notes"
    data.mkdir()
    (data / "peer_key").write_text("secret")
    if (home / moved).exists():
        (home / moved).rename(home / "away")
    data.rename(home / moved)
    data.symlink_to(home / moved)  # where the device goes on to find it
    try:
        assert "mine/peer_key" not in scan(notes, data).files
    except PermissionError:
        assert moved == "ben/notes"


@LINUX
def test_what_the_system_makes_up_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        scan(Path(f"/proc/{os.getpid()}"), tmp_path)


def test_a_folder_is_read_with_the_rights_of_its_account(home: Path) -> None:
    def of(user: int, group: int, mode: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))

    reader = Reader(1000, frozenset({1000, 50}))
    readable: Callable[[os.stat_result], bool] = reader.may_read
    assert readable(of(1000, 1, 0o400))
    assert readable(of(0, 50, 0o040))
    assert readable(of(0, 0, 0o004))
    assert not readable(of(1000, 1000, 0o044))  # its own, and closed to it
    assert not readable(of(0, 50, 0o404))
    assert not readable(of(1001, 1001, 0o770))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another account")
def test_a_device_that_may_read_all_reads_no_more_than_the_folders_account(home: Path) -> None:
    notes = home / "ben" / "notes"
    os.chown(notes, 4711, 4711)
    (notes / "inner").chmod(0o700)
    (notes / "shadow").write_text("root's own")
    (notes / "shadow").chmod(0o600)
    found = scan(notes, home / "data")
    assert found.closed == ["inner/"]
    with pytest.raises(PermissionError):
        content_of(notes, home / "data", "shadow")
    os.chown(notes / "inner", 4711, 4711)
    assert "inner/a.txt" in scan(notes, home / "data").files


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another account")
@pytest.mark.parametrize("account", [0, 4712])
def test_what_another_account_links_into_its_folder_is_not_read_for_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, account: int
) -> None:
    """Where the kernel lets anybody make hard links, to the device's own files, too."""
    monkeypatch.setattr(os, "geteuid", lambda: account)
    notes, key = home / "ben" / "notes", home / "peer_key"
    key.write_text("secret")
    key.chmod(0o600)
    os.chown(key, account, account)
    os.chown(notes, 4711, 4711)
    os.link(key, notes / "mine.txt")
    with pytest.raises(PermissionError):
        content_of(notes, home / "data", "mine.txt")


def test_what_is_opened_is_closed(home: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        scan(home / "ben" / "notes", home / "data")
        content_of(home / "ben" / "notes", home / "data", "inner/a.txt")
        with pytest.raises(FileNotFoundError), opened(home / "nowhere", home / "data"):
            pass
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("other", ["diary", "data"])
async def test_a_link_in_a_folders_place_brings_nothing(tmp_path: Path, other: str) -> None:
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary" / "diary.txt").write_text(DIARY)
    async with watching(tmp_path) as watched:
        await watched.only("a.txt", "Mine.")
        replaced(watched.root, tmp_path / other)

        async def is_missed() -> bool:
            assert set(await watched.files()) == {"a.txt"}
            return await watched.state() == FolderState.MISSING

        await eventually(is_missed)
        assert await watched.names() == ["a.txt"]
        assert all(DIARY not in text for text in await watched.finds("combination of the safe"))


@LINUX
async def test_no_folder_of_the_systems_own_making_is_watched(tmp_path: Path) -> None:
    async with store_opened(tmp_path / "data") as store:
        with pytest.raises(InvalidRequestError, match="cannot be watched"):
            await store.folders.add(Path("/proc"))
