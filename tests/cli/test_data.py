"""`dragon doctor` on a real data directory, well and ill."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
import typer

from app.documents.folders.keeping import content_identity
from app.ledger.writer import Ledger
from app.storage.database import DATABASE, connect, database_url, session_maker
from cli.data import doctor
from dragon.errors import ConfigurationError
from tests.app.stores import NOTE, OTHER, ingest, opened
from tests.scans import fake_tesseract


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a device that has two documents and has answered once."""
    monkeypatch.setenv("DRAGON_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    asyncio.run(used(tmp_path))
    return tmp_path


async def used(data_dir: Path) -> None:
    async with opened(data_dir) as store:
        await ingest(store, "key.txt", NOTE)
        await ingest(store, "router.txt", OTHER)
    engine = connect(database_url(data_dir))
    ledger = Ledger(session_maker(engine))
    await ledger.start()
    with ledger.begin("answer", str, private=True):
        pass
    await ledger.close()
    await engine.dispose()


def sql(data_dir: Path, statement: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection, connection:
        return connection.execute(statement).fetchall()


def test_all_is_well(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    said = capsys.readouterr().out
    assert "WRONG" not in said
    for line in (
        "2 documents, 0 conversations",
        "2 of 2 as they were uploaded",
        "of 2 of 2 documents",
        "1 answers, 2 entries: the chain holds",
    ):
        assert line in said


def test_documents_that_were_moved_or_watched_are_as_they_were(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql(data_dir, "UPDATE documents SET collection = 'house' WHERE filename = 'key.txt'")
    watched = content_identity("wlan.txt", "notes", hashlib.sha256(OTHER).hexdigest(), "")
    ((router,),) = sql(data_dir, "SELECT id FROM documents WHERE filename = 'router.txt'")
    (data_dir / "files" / router).rename(data_dir / "files" / watched)
    set_to = f"id = '{watched}', filename = 'wlan.txt', collection = 'notes'"
    sql(data_dir, f"UPDATE documents SET {set_to} WHERE id = '{router}'")
    with suppress(typer.Exit):
        doctor()
    assert "2 of 2 as they were uploaded" in capsys.readouterr().out


def test_it_says_whether_scans_can_be_read(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    doctor()
    assert (
        "scans       are not read. Reading that takes text recognition" in capsys.readouterr().out
    )
    monkeypatch.setenv("PATH", str(fake_tesseract(data_dir, "")))
    doctor()
    assert "/programs/bin/tesseract: eng, deu, fra" in capsys.readouterr().out


def test_it_says_what_is_lost_and_mends_what_is_derived(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((key,), (router,)) = sql(data_dir, "SELECT id FROM documents ORDER BY rowid")
    (data_dir / "files" / key / "original").write_bytes(b"something else")
    (data_dir / "files" / router / "original").unlink()
    (vectors,) = (data_dir / "index").glob(f"{key}.*")
    vectors.write_bytes(b"damaged")
    sql(data_dir, "INSERT INTO chunks_fts(chunks_fts) VALUES ('delete-all')")
    sql(data_dir, "UPDATE ledger_entries SET bytes = 7")
    (data_dir / "quarantine").mkdir()
    (data_dir / "quarantine" / "file-1").mkdir()
    with pytest.raises(typer.Exit) as ended:
        doctor()
    assert ended.value.exit_code == 1
    said = capsys.readouterr().out
    for line in (
        "ok     words       made again: chunks_fts",
        "0 of 2 as they were uploaded; lost, upload them again: router.txt; altered",
        "ok     vectors     of 1 of 2 documents; 1 missing or damaged",
        "WRONG  ledger",
        "WRONG  quarantine  1 files",
    ):
        assert line in said
    with pytest.raises(typer.Exit):
        doctor()
    assert "words       can be searched" in capsys.readouterr().out


def test_a_database_that_is_none(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data_dir / DATABASE).write_bytes(b"no database at all" * 1000)
    with pytest.raises(typer.Exit):
        doctor()
    said = capsys.readouterr().out
    assert "WRONG  database    cannot be read" in said
    assert "dragon restore FILE --replace" in said
    (data_dir / DATABASE).unlink()
    with pytest.raises(ConfigurationError, match="missing or empty"):
        doctor()
