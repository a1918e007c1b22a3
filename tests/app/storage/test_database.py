"""The database: migrations, and what it keeps.

Covers `app.storage.tables`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import (
    Column,
    MetaData,
    Table,
    Text,
    cast,
    create_engine,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.owners import everyone
from app.storage import database
from app.storage.database import connect, database_url, is_ours, migrate, session_maker
from app.storage.purge import Purge
from app.storage.tables import Base, Chunk, Document, LocalizableText
from dragon.localizable import Localizable, localizable
from tests.app import stores


def document(identity: str = "file-1") -> Document:
    return Document(
        id=identity, filename="n.txt", purpose="user_data", kind="text", bytes=1, created_at=1,
        status="processed", status_details=None,
    )  # fmt: skip


def chunk(identity: str = "file-1", body: str = "text") -> Chunk:
    return Chunk(document_id=identity, text=body, context="", page=None, start=0, end=1)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    engine = connect(stores.migrated(directory))
    yield session_maker(engine)
    await engine.dispose()


def test_the_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    url = database_url(tmp_path)
    migrate(url)
    migrate(url)
    engine = create_engine(f"sqlite:///{tmp_path / 'dragon.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_ours})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()
    tables = sqlite3.connect(tmp_path / "dragon.db").execute("SELECT sql FROM sqlite_master")
    assert any("AUTOINCREMENT" in (sql or "") for (sql,) in tables)


def test_migrating_works_from_another_directory(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    code = (
        f"from app.storage.database import migrate; migrate('sqlite+aiosqlite:///{tmp_path}/a.db')"
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "a.db").stat().st_size > 0


def test_a_migration_that_fails_leaves_the_schema_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "dragon.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE chunks (id INTEGER)")  # in the way of the second table
    connection.commit()
    with pytest.raises(Exception, match="already exists"):
        migrate(database_url(tmp_path))
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert ("documents",) not in tables
    connection.execute("DROP TABLE chunks")
    connection.commit()
    connection.close()
    migrate(database_url(tmp_path))


async def test_connections_are_set_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as sessions:
        expected = {"journal_mode": "wal", "foreign_keys": 1, "secure_delete": 1, "synchronous": 2}
        async with sessions() as session:
            for pragma, value in expected.items():
                with everyone():
                    assert await session.scalar(text(f"PRAGMA {pragma}")) == value


async def test_chunks_go_with_their_document_and_ids_are_never_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as sessions:
        async with sessions.begin() as session:
            session.add(document())
            await session.flush()
            session.add(first := chunk())
        async with sessions.begin() as session:
            await session.delete(await session.get_one(Document, "file-1"))
        async with sessions.begin() as session:
            assert await session.get(Chunk, first.id) is None
            session.add(document())
            await session.flush()
            session.add(second := chunk())
        assert second.id > first.id


async def test_a_reader_of_deleted_text_holds_nothing_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as sessions:
        async with sessions.begin() as session:
            session.add(document())
        reader = sqlite3.connect(tmp_path / "dragon.db")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM documents").fetchall()
        purge = Purge(sessions)
        await purge.now()
        assert (tmp_path / "dragon.db-wal").stat().st_size > 0
        async with sessions.begin() as session:  # others write meanwhile
            session.add(document("file-2"))
        reader.close()
        await purge.settled()
        assert (tmp_path / "dragon.db-wal").stat().st_size == 0


async def test_no_error_tells_what_was_to_be_stored(tmp_path: Path) -> None:
    async with opened(tmp_path) as sessions:
        with pytest.raises(IntegrityError) as caught:
            async with sessions.begin() as session:
                session.add(chunk("file-nowhere", "the walnut drawer"))
        assert "walnut" not in str(caught.value)
        assert "walnut" not in repr(caught.value.__cause__)


async def test_files_that_are_only_kept_are_searched_no_more(tmp_path: Path) -> None:
    """They were read and searched once."""
    async with stores.opened(tmp_path) as store:
        job = await stores.ingest(store, "jobs.jsonl", stores.NOTE)
        await stores.ingest(store, "note.txt", stores.OTHER)
    await asyncio.to_thread(stores.downgrade, tmp_path, "0012")
    with closing(sqlite3.connect(tmp_path / "dragon.db")) as old, old:
        old.execute("UPDATE documents SET purpose = 'batch' WHERE id = ?", [job.id])
    async with stores.opened(tmp_path) as store:
        found = await store.search("Where is the spare key?", 5, relevant=False)
        assert {hit.title for hit in found} == {"note.txt"}
        kept = await store.get(job.id)
        assert (kept.status, kept.chunks, kept.kind) == ("processed", 0, "")
        with await store.content(job.id) as file:
            assert file.read() == stores.NOTE
    assert len(stores.index_ids(tmp_path)) == 1


async def test_many_that_write_at_once_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is kept waiting for as long as SQLite waits has lost what it wanted to write."""
    monkeypatch.setattr(database, "_PRAGMAS", ("journal_mode = WAL", "busy_timeout = 1"))
    async with opened(tmp_path) as sessions:

        async def write(number: int) -> None:
            async with sessions.begin() as session:
                session.add(document(f"file-{number}"))
                await session.flush()
                await asyncio.sleep(0.002)  # as long as a disk takes

        await asyncio.gather(*(write(number) for number in range(100)))
        async with sessions() as session:
            assert await session.scalar(select(func.count()).select_from(Document)) == 100


def test_a_sentence_comes_back_with_all_that_it_knows() -> None:
    table = Table("sentences", MetaData(), Column("said", LocalizableText))
    gif = localizable("kind.gif", "a GIF image")
    sentence = localizable("file.other", "It is {what}.", what=gif)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), [{"said": sentence}, {"said": "plain"}, {"said": None}])
        first, *rest = connection.scalars(select(table.c.said)).all()
        assert isinstance(first, Localizable)
        assert (first, first.as_json()) == (sentence, sentence.as_json())
        assert rest == ["plain", None]
        # An older release shows the English first.
        shown = connection.scalars(select(cast(table.c.said, Text))).first()
        assert str(shown).startswith(sentence)
