"""A disk that fails while documents are taken in: nothing is lost, and no restart is needed.

Covers `app.disk`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from app.documents import erasure, ingestion
from app.documents.index import DocumentIndex
from app.documents.ingestion import Progress
from app.documents.parsing import Parsing
from app.documents.store import DocumentStore
from app.storage import database
from app.storage.tables import Status
from dragon.errors import DocumentError, StorageError
from harness.adding import add
from harness.faults import disk
from tests.app.stores import NOTE, OTHER, files, finished, ingest, opened


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a disk."""
    monkeypatch.setattr(ingestion, "_RETRY_S", 0.01)
    pragmas = [each for each in database._PRAGMAS if not each.startswith("busy_timeout")]
    monkeypatch.setattr(database, "_PRAGMAS", (*pragmas, "busy_timeout = 1"))


@pytest.mark.usefixtures("hasty")
async def test_waits_for_a_full_disk(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put, failures = DocumentIndex.add, iter(range(3))

    async def add_later(self: DocumentIndex, *given: Any) -> None:
        if next(failures, None) is not None:
            raise disk.full()
        await put(self, *given)

    monkeypatch.setattr(DocumentIndex, "add", add_later)
    document = await add(store, "key.txt", NOTE)
    progress = await finished(store, document)
    assert any("disk is full" in (each.message or "") for each in progress)
    assert (progress[-1].status, progress[-1].message) == (Status.PROCESSED, None)
    assert len(await store.search("Where is the spare key?", 3)) == 1


@pytest.mark.usefixtures("hasty")
async def test_waits_for_a_locked_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        document = await add(store, "key.txt", NOTE)
        waiting: Progress | None = None
        with disk.locked(tmp_path):
            watched = await store.watch(document.id)
            async for waiting in watched:
                if waiting.message:
                    break
        assert waiting is not None
        assert waiting.message == ingestion._WAITING
        assert (await finished(store, document))[-1].status == Status.PROCESSED
        assert len(await store.search("Where is the spare key?", 3)) == 1
    said = [message for message in caplog.messages if document.id in message]
    assert said == [f"{document.id} waits for the disk: database is locked"]


async def test_a_parser_that_cannot_write_is_no_fault_of_the_file(tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.write_bytes(NOTE)
    with pytest.raises(OSError, match="No such file") as caught:
        await Parsing().parse(original, "key.txt", tmp_path / "nowhere" / "text")
    assert not isinstance(caught.value, DocumentError)


async def test_an_upload_is_refused_while_there_is_still_some_room(
    store: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=63 << 20))
    with pytest.raises(StorageError, match=r"nearly full \(63 MiB free\)"):
        await add(store, "key.txt", NOTE)
    assert (await store.list(), files(tmp_path, "files", "incoming")) == ([], [])
    monkeypatch.undo()
    await ingest(store, "key.txt", NOTE)


async def test_files_that_the_database_does_not_know_are_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        document = await ingest(store, "key.txt", NOTE)
    (tmp_path / database.DATABASE).unlink()  # as of an older backup, put back by hand
    async with opened(tmp_path) as store:
        assert await store.list() == []
    (aside,) = (tmp_path / "quarantine").iterdir()
    assert (aside / "original").read_bytes() == NOTE
    assert f"the database does not know {document.id}: put aside" in caplog.text


@pytest.mark.parametrize("committed", [False, True])
async def test_a_kill_in_a_deletion_leaves_all_or_none(tmp_path: Path, *, committed: bool) -> None:
    async with opened(tmp_path) as store:
        document = await ingest(store, "key.txt", NOTE)
        async with store._sessions() as session:
            await store._erasure.rows(session, [document.id])
            if committed:
                await session.commit()
    async with opened(tmp_path) as store:
        found = await store.search("Where is the spare key?", 3)
        directory = tmp_path / "files" / document.id
        assert (len(found), directory.exists()) == ((0, False) if committed else (1, True))
        assert not (directory / "deleting").exists()
    assert not (tmp_path / "quarantine").exists()


async def test_what_a_full_disk_keeps_of_a_deleted_file_goes_later_but_not_its_next_upload(
    store: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "_AGAIN_S", 0.05)
    kept, again = await ingest(store, "router.txt", OTHER), await ingest(store, "key.txt", NOTE)
    remove, full = erasure._remove, [True]

    def fail(directory: Path) -> None:
        if full:
            raise disk.full()
        remove(directory)

    monkeypatch.setattr(erasure, "_remove", fail)
    for document in (kept, again):
        await store.delete(document.id)
    assert await store.list() == []
    await ingest(store, "key.txt", NOTE)
    full.clear()
    await store.settled()
    assert files(tmp_path, "files") == sorted(
        f"files/{again.id}{part}" for part in ("", "/original", "/text")
    )
    assert len(await store.search("Where is the spare key?", 3)) == 1
