"""The device's SQLite database: connections, migrations, and its write-ahead log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import event, make_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from app.paths import packaged
from app.storage import full_text
from app.storage.owned import OwnersSession

DATABASE = "dragon.db"
_MIGRATIONS = packaged("alembic")
_BUSY_TIMEOUT_MS = 10_000
_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "secure_delete = ON",  # overwrite deleted content with zeros
    f"busy_timeout = {_BUSY_TIMEOUT_MS}",
)


def is_ours(name: str | None, kind: str, _parents: object = None) -> bool:
    """Whether a table is declared by the models; SQLite creates those of full-text indexes."""
    return kind != "table" or name is None or not name.startswith(full_text.INDEXES)


def database_url(data_dir: Path) -> str:
    return f"sqlite+aiosqlite:///{data_dir.resolve() / DATABASE}"


def migrate(url: str, version: str = "head") -> None:
    """Create or migrate the database at url to a schema version, by default the newest. Blocks."""
    database = make_url(url).database
    if database is not None and Path(database).exists():
        full_text.mend(Path(database))
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = make_url(url).set(drivername="sqlite")
    command.upgrade(config, version)


def connect(url: str) -> AsyncEngine:
    """An engine whose connections use a write-ahead log, foreign keys and secure deletion."""
    # Parameters are users' texts and titles, which must not appear in a log.
    engine = create_async_engine(url, hide_parameters=True)

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


class Sessions(async_sessionmaker[AsyncSession]):
    """Makes sessions whose transactions take turns.

    SQLite allows one writer at a time. It serves waiting writers in random order and with a
    timeout: of hundreds at once some would not be served in time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, expire_on_commit=False, sync_session_class=OwnersSession)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncSession]:  # type: ignore[override]
        """A transaction, after those before it are over; never one within another."""
        async with self._turn, super().begin() as session:
            yield session


def session_maker(engine: AsyncEngine) -> Sessions:
    """A factory of sessions, each limited to the current owner's rows, readable after commit."""
    return Sessions(engine)


async def empty_log(sessions: async_sessionmaker[AsyncSession], wait_ms: int) -> bool:
    """Checkpoint and truncate the write-ahead log; returns whether it is empty.

    Blocks other writers, and waits at most `wait_ms` milliseconds for readers.
    """
    async with sessions() as session:
        connection = await session.connection()
        await connection.exec_driver_sql(f"PRAGMA busy_timeout = {wait_ms}")
        try:
            result = await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            busy, *_ = result.one()
        finally:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        return not busy
