"""Backups of a data directory in use, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from app.documents.store import DocumentStore
from app.storage.data_dir import BackupError, backup, restore
from app.storage.tables import Status
from harness.adding import add
from harness.pdf import pdf
from tests.app.stores import NOTE, OTHER, finished, ingest, opened, segment_of, traces
from tests.samples import prose

QUESTIONS = ("Where is the spare key?", "K7-QX41", "the stone keeper on day 3")


async def answers(store: DocumentStore) -> list[object]:
    """What searches find, with scores, and what documents there are."""
    hits = [await store.search(question, 5) for question in QUESTIONS]
    documents = await store.list()
    return [hits, [(each.id, each.filename, each.collection, each.status) for each in documents]]


async def test_a_restored_backup_answers_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "backup.zip"
    async with opened(tmp_path / "data") as store:
        key = await ingest(store, "key.pdf", pdf("", NOTE.decode()), "home")
        await ingest(store, "router.txt", OTHER)
        gone = await ingest(store, "gone.txt", b"The walnut drawer is locked.")
        await ingest(store, "broken.pdf", b"%PDF-")
        await store.delete(gone.id)
        underway = await add(store, "stones.txt", prose(20).encode())
        contents = backup(tmp_path / "data", archive)
        assert contents.documents == 4
        assert sorted(os.listdir(tmp_path)) == ["backup.zip", "data"]
        assert (await finished(store, underway))[-1].status == Status.PROCESSED
        before = await answers(store)
        text = (await store.text(key.id))[1]
    restored = restore(archive, tmp_path / "new" / "data")
    assert restored == contents
    async with opened(tmp_path / "new" / "data") as store:
        assert (await finished(store, underway))[-1].status == Status.PROCESSED
        assert await answers(store) == before
        assert (await store.content(key.id)).read() == pdf("", NOTE.decode())
        assert (await store.text(key.id))[1] == text
    assert traces(tmp_path / "new", b"walnut") == []


async def made(directory: Path) -> Path:
    """A backup of a device that has a note."""
    async with opened(directory / "data") as store:
        await ingest(store, "key.txt", NOTE)
    backup(directory / "data", directory / "backup.zip")
    return directory / "backup.zip"


async def test_documents_there_are_stay_unless_they_are_to_be_replaced(tmp_path: Path) -> None:
    archive = await made(tmp_path)
    async with opened(tmp_path / "two") as store:
        await ingest(store, "router.txt", OTHER)
        with pytest.raises(BackupError, match="--replace"):
            restore(archive, tmp_path / "two")
        with pytest.raises(BackupError, match="Stop it first"):
            restore(archive, tmp_path / "two", replace=True)
        assert len(await store.search("router passcode", 1)) == 1
    restore(archive, tmp_path / "two", replace=True)
    async with opened(tmp_path / "two") as store:
        assert [each.filename for each in await store.list()] == ["key.txt"]
        assert len(await store.search("spare key", 1)) == 1
    assert traces(tmp_path / "two", b"K7-QX41", b"router.txt") == []


async def test_damaged_archives_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    archive, target = await made(tmp_path), tmp_path / "new"
    whole, entries = archive.read_bytes(), unpacked(archive)
    turned = bytearray(whole)
    turned[whole.index(b"dragon.db") + 500] ^= 0xFF
    (text,) = (name for name in entries if name.endswith("/text"))
    listing = entries["backup.json"]
    lacking = {name: data for name, data in entries.items() if name != text}
    renamed = {**lacking, "../x": NOTE}
    outside = {**renamed, "backup.json": listing.replace(text.encode(), b"../x")}
    nameless = {**lacking, "": NOTE, "backup.json": listing.replace(text.encode(), b"")}
    newer = {**entries, "backup.json": listing.replace(b'"version": 1', b'"version": 9')}
    cases = [
        (b"", "damaged"),
        (b"no archive", "damaged"),
        (whole[:-30], "damaged"),
        (whole[: len(whole) // 2], "damaged"),
        (bytes(turned), "damaged"),
        (packed(tmp_path, lacking), "damaged"),
        (packed(tmp_path, renamed), "damaged"),
        (packed(tmp_path, outside), "an entry of no backup: '../x'"),
        (packed(tmp_path, nameless), "an entry of no backup: ''"),
        (last_entry(whole, 8, 1), "damaged"),  # encrypted
        (last_entry(whole, 10, 99), "damaged"),  # of an unknown compression
        (packed(tmp_path, newer), "another version"),
        (packed(tmp_path, {"word.xml": b"<a/>"}), "damaged"),
    ]
    for content, message in cases:
        archive.write_bytes(content)
        with pytest.raises(BackupError, match=message):
            restore(archive, target)
        assert [*target.iterdir()] == []
    with pytest.raises(BackupError, match="There is no file"):
        restore(tmp_path / "nowhere.zip", target)


def packed(directory: Path, entries: dict[str, bytes]) -> bytes:
    path = directory / "made.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return path.read_bytes()


def last_entry(content: bytes, offset: int, value: int) -> bytes:
    """An archive with another byte in what its directory says of the last entry."""
    changed = bytearray(content)
    changed[content.rindex(b"PK\x01\x02") + offset] = value
    return bytes(changed)


async def test_what_cannot_be_backed_up(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no database"):
        backup(tmp_path / "nothing", tmp_path / "backup.zip")
    async with opened(tmp_path / "data") as store:
        document = await ingest(store, "key.txt", NOTE)
        with pytest.raises(BackupError, match="no directory"):
            backup(tmp_path / "data", tmp_path / "nowhere" / "backup.zip")
        # What was lost before is no reason to save nothing.
        (tmp_path / "data" / "files" / document.id / "original").unlink()
        segment_of(tmp_path / "data", document).unlink()
        assert backup(tmp_path / "data", tmp_path / "backup.zip").documents == 1
    restore(tmp_path / "backup.zip", tmp_path / "new")
    async with opened(tmp_path / "new") as store:
        assert len(await store.search("spare key", 1)) == 1


async def test_documents_that_are_deleted_one_by_one_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, written = tmp_path / "data", zipfile.ZipFile.write
    async with opened(data) as store:
        documents = [
            (await ingest(store, f"{n}.txt", f"The walnut {n} is locked.".encode())).id
            for n in range(12)
        ]
        waiting, loop = list(documents[:-1]), asyncio.get_running_loop()

        def write(archive: zipfile.ZipFile, path: Path, name: str) -> None:
            """As it is, but just before the original of another one is read, that is deleted."""
            if waiting and name == f"files/{waiting[0]}/original":
                deleting = store.delete(waiting.pop(0))
                asyncio.run_coroutine_threadsafe(deleting, loop).result()
            written(archive, path, name)

        monkeypatch.setattr(zipfile.ZipFile, "write", write)
        made = await asyncio.to_thread(backup, data, tmp_path / "backup.zip")
        assert made.documents == 1
    assert restore(tmp_path / "backup.zip", tmp_path / "new") == made
    async with opened(tmp_path / "new") as store:
        assert [each.id for each in await store.list()] == documents[-1:]
    assert traces(tmp_path / "new", *(f"walnut {n} ".encode() for n in range(11))) == []


async def test_an_entry_with_a_bad_name_is_named(tmp_path: Path) -> None:
    archive = await made(tmp_path)
    entries = unpacked(archive)
    for name in ("files/.", "files/..", "files/x/" + "y" * 300, "index/x/y", "kv/x"):
        listing = json.loads(entries["backup.json"])
        listing["files"][name] = len(NOTE)
        listed = {name: NOTE, "backup.json": json.dumps(listing).encode()}
        archive.write_bytes(packed(tmp_path, entries | listed))
        with pytest.raises(BackupError) as refused:
            restore(archive, tmp_path / "new")
        assert f"an entry of no backup: {name[:80]!r}." in refused.value.message


def unpacked(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def changed(archive: Path, statements: str) -> Path:
    """The backup by somebody who has done this to its database."""
    entries, database = unpacked(archive), archive.with_name("made.db")
    database.write_bytes(entries["dragon.db"])
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(statements)
    entries["dragon.db"] = database.read_bytes()
    listing = json.loads(entries["backup.json"])
    listing["files"]["dragon.db"] = len(entries["dragon.db"])
    entries["backup.json"] = json.dumps(listing).encode()
    other = archive.with_name("changed.zip")
    other.write_bytes(packed(archive.parent, entries))
    return other


async def test_of_a_database_the_rows_are_taken_and_nothing_else(tmp_path: Path) -> None:
    archive = changed(
        await made(tmp_path),
        f"""
        CREATE TRIGGER told AFTER INSERT ON documents BEGIN
            UPDATE documents SET shared = 1; INSERT INTO stolen VALUES (new.filename);
        END;
        CREATE TABLE stolen (name TEXT);
        CREATE VIEW everything AS SELECT * FROM chunks;
        INSERT INTO watched_folders (id, path, collection, owner)
            VALUES ('folder-1', '{tmp_path}', 'mine', '');
        """,
    )
    restore(archive, tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "dragon.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert names.isdisjoint({"told", "stolen", "everything"})
    async with opened(tmp_path / "new") as store:
        assert await store.folders.list() == []
        assert [each.filename for each in await store.list()] == ["key.txt"]
        assert len(await store.search("spare key", 1)) == 1


async def test_a_database_of_another_making_is_refused_in_a_sentence(tmp_path: Path) -> None:
    archive, viewed = await made(tmp_path), "CREATE VIEW documents AS SELECT * FROM d;"
    for statements, why in (
        (f"ALTER TABLE documents RENAME TO d; {viewed}", "no table"),
        ("DROP TABLE conversations;", "no table conversations"),
        ("ALTER TABLE messages RENAME COLUMN record TO other;", "messages is another one"),
        ("DROP TABLE alembic_version;", "no table alembic_version"),
        ("UPDATE alembic_version SET version_num = '../x';", "no version"),
        ("UPDATE alembic_version SET version_num = '9999';", "newer version"),
        ("PRAGMA foreign_keys = OFF; UPDATE chunks SET document_id = 'file-x';", "refers to"),
    ):
        with pytest.raises(BackupError, match=why):
            restore(changed(archive, statements), tmp_path / "new")
        assert [*(tmp_path / "new").iterdir()] == []
