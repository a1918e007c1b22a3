"""Copies the rows of a database made by someone else, and nothing else of it.

Its schema may contain anything: triggers that run later, views in place of tables, folders to
watch. The rows go, table by table, into a database of the same version made by our own migrations.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy.exc import DatabaseError

from app.storage.database import DATABASE, database_url, migrate
from dragon.errors import DragonError

_AT_ONCE = 1000
_VERSIONS = "alembic_version"
_SEARCH = "message_search"
# Folders watched on another machine, or by the file's maker, are not watched here.
_LEFT_OUT = frozenset({_VERSIONS, "watched_files", "watched_folders"})
_INDEXED = """
INSERT INTO message_search(text, message, conversation)
SELECT text, id, conversation_id FROM messages WHERE role = 'user' OR state != 'writing'
"""


class ForeignDatabaseError(DragonError):
    """A database lacks tables that it should have, or is damaged."""

    code = "foreign_database"


class NewerDatabaseError(ForeignDatabaseError):
    """A database has an unknown version."""


def take_rows(source: Path, directory: Path) -> None:
    """Create a data directory's database with the rows of the file `source`. Blocks.

    Raises `ForeignDatabaseError`.
    """
    try:
        with closing(_opened(source)) as foreign:
            (state,) = foreign.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise ForeignDatabaseError(f"the database is damaged: {state}")
            migrate(database_url(directory), _version(foreign))
            with closing(sqlite3.connect(directory / DATABASE)) as own, own:
                _copy(foreign, own)
        migrate(database_url(directory))
    except CommandError as error:
        raise NewerDatabaseError("the database is of a newer version") from error
    except (DatabaseError, sqlite3.Error, OverflowError, UnicodeError) as error:
        raise ForeignDatabaseError(f"the database is damaged: {error}") from error


def _opened(source: Path) -> sqlite3.Connection:
    """Open it read-only, without running anything in its schema."""
    connection = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _version(foreign: sqlite3.Connection) -> str:
    _require_table(foreign, _VERSIONS)
    versions = foreign.execute(f"SELECT version_num FROM {_VERSIONS}").fetchall()  # noqa: S608
    if len(versions) != 1 or not isinstance(versions[0][0], str) or not versions[0][0].isdecimal():
        raise ForeignDatabaseError("the database has no version")
    return versions[0][0]


def _require_table(foreign: sqlite3.Connection, name: str) -> None:
    """Raises `ForeignDatabaseError` unless a name is that of an ordinary table."""
    kind = "SELECT type, sql FROM sqlite_master WHERE name = ?"
    found = foreign.execute(kind, (name,)).fetchall()
    if [each for each, _ in found] != ["table"] or "virtual" in found[0][1][:30].lower():
        raise ForeignDatabaseError(f"the database has no table {name}")


def _copy(foreign: sqlite3.Connection, own: sqlite3.Connection) -> None:
    for table in _tables(own):
        _require_table(foreign, table)
        columns = _columns(own, table)
        if not set(columns) <= set(_columns(foreign, table)):
            raise ForeignDatabaseError(f"the table {table} is another one")
        named = ", ".join(f'"{column}"' for column in columns)
        rows = foreign.execute(f'SELECT {named} FROM "{table}"')  # noqa: S608
        marks = ", ".join("?" * len(columns))
        while some := rows.fetchmany(_AT_ONCE):
            own.executemany(f'INSERT INTO "{table}" ({named}) VALUES ({marks})', some)  # noqa: S608
    if _has(own, "watched_files"):
        # Documents of a folder stay, as if they had been uploaded.
        own.execute("UPDATE documents SET by_hand = 1")
    if _has(own, _SEARCH):
        own.execute(_INDEXED)
    for name, last in foreign.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
        own.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
    if own.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise ForeignDatabaseError("the database refers to missing rows")


def _tables(own: sqlite3.Connection) -> list[str]:
    """Our tables whose rows to copy: full-text tables are built from others."""
    found = own.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
    tables = found.fetchall()
    virtual = [name for name, sql in tables if (sql or "").startswith("CREATE VIRTUAL")]
    return [
        name
        for name, _ in tables
        if not (name in _LEFT_OUT or name.startswith(("sqlite_", *virtual)))
    ]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    ]


def _has(own: sqlite3.Connection, table: str) -> bool:
    return bool(own.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())
