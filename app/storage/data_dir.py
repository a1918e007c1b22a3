"""The data directory: used by one device at a time, backed up and restored as a whole.

A backup is one ZIP file, which can be written even while the device serves: `dragon.db` (a snapshot
of the database), `files/` (originals and parsed text), `index/` (vectors), and `backup.json`, which
lists them. The document KV cache, which answers refill, and the API key are left out.

A restore takes nothing but rows from the archive's database, whose schema may contain anything:
triggers that run later, views in place of tables, folders to watch. The rows go, table by table,
into a database of the same version made by our own migrations.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy.exc import DatabaseError

from app.storage.database import DATABASE, database_url, migrate
from dragon.errors import ConfigurationError, DragonError

_LOCK = "device.lock"
_SERVED = "served"  # this file says that a database was created here


class InUseError(ConfigurationError):
    """Another device is using the directory."""


@contextmanager
def owned(data_dir: Path) -> Iterator[None]:
    """Keep every other device out of the directory, which is created if needed.

    The system releases it when the process ends, however that happens. Raises `InUseError` while
    another process has it.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data_dir / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUseError(
                f"DRAGON_DATA_DIR: a device (process {lock.read().strip() or 'unknown'}) uses "
                f"{data_dir}. Stop it first, or choose another directory."
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def require_database(data_dir: Path) -> None:
    """Raises `ConfigurationError` if a device has served here and its database is gone."""
    database = data_dir / DATABASE
    if database.exists() and database.stat().st_size:
        return
    files = data_dir / "files"
    originals = files.is_dir() and any(path.is_dir() for path in files.iterdir())
    if originals or (data_dir / _SERVED).exists():
        raise ConfigurationError(
            f"DRAGON_DATA_DIR: {data_dir} was in use, but its {DATABASE} is missing or empty. Put "
            "it back, or restore a backup with `dragon restore FILE --replace`. To start afresh, "
            "choose another directory."
        )


def note_database(data_dir: Path) -> None:
    """Record that a database was created here."""
    (data_dir / _SERVED).touch(mode=0o600)


# Backups.


VERSION = 1
_LIST = "backup.json"
_FOLDERS = ("files", "index")
_ATTEMPTS = 100
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_OURS = re.compile(
    rf"{re.escape(DATABASE)}|files/{_NAME}/(original|text)|index/{_NAME}\.safetensors"
)


class BackupError(DragonError):
    """A backup cannot be made or restored; the message says what to do."""

    code = "backup_error"


@dataclass(frozen=True)
class Contents:
    """The contents of an archive: `files` maps names to sizes in bytes, `created` is in UTC."""

    version: int
    created: str
    documents: int
    files: dict[str, int]


def backup(data_dir: Path, out: Path) -> Contents:
    """Write all documents of a data directory, in use or not, to a file. Raises BackupError."""
    if not (data_dir / DATABASE).is_file():
        raise BackupError(f"There is no database in {data_dir}. Is DRAGON_DATA_DIR right?")
    if not out.parent.is_dir():
        raise BackupError(f"There is no directory {out.parent}.")
    lost: set[str] = set()
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as directory:
            whole = Path(directory) / "archive"
            contents, missing = _write(data_dir, whole)
            # A document deleted meanwhile must not be restored in part: the next snapshot lacks it.
            # A file that is missing then, too, was lost before.
            if missing <= lost:
                whole.replace(out)
                return contents
            lost |= missing
    raise BackupError("Documents are being deleted all the time. Try again when that is over.")


def _write(data_dir: Path, whole: Path) -> tuple[Contents, set[str]]:
    """Write an archive; also returns the originals that are not there."""
    snapshot = whole.with_name(DATABASE)
    documents = _snapshot(data_dir / DATABASE, snapshot)
    missing = {f"files/{document}/original" for document in documents}
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in {DATABASE: snapshot, **_files(data_dir, documents)}.items():
            with suppress(FileNotFoundError):
                archive.write(path, name)
                missing.discard(name)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        sizes = {each.filename: each.file_size for each in archive.infolist()}
        contents = Contents(VERSION, created, len(documents), sizes)
        archive.writestr(_LIST, json.dumps(asdict(contents)))
    whole.chmod(0o600)
    with whole.open("rb") as file:
        os.fsync(file.fileno())
    return contents, missing


def _snapshot(database: Path, copy: Path) -> list[str]:
    """Copy a database in use by SQLite's backup API; returns the documents' ids."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, no log beside it
        return [name for (name,) in target.execute("SELECT id FROM documents ORDER BY id")]


def _files(data_dir: Path, documents: list[str]) -> dict[str, Path]:
    """The files of documents by name in the archive: originals, and text and vectors if present."""
    paths = {}
    for document in documents:
        folder, vectors = data_dir / "files" / document, f"{document}.*.safetensors"
        derived = (folder / "text", *sorted((data_dir / "index").glob(vectors)))
        for path in (folder / "original", *filter(Path.exists, derived)):
            paths[path.relative_to(data_dir).as_posix()] = path
    return paths


def restore(archive: Path, data_dir: Path, *, replace: bool = False) -> Contents:
    """Restore a data directory; existing documents stay until the archive is fully unpacked.

    Watched folders are not restored: their documents stay, and the folders must be added again.
    Raises BackupError if the archive is damaged or not one of ours, if there are documents already
    and `replace` is false, or if a device is using the directory.
    """
    present = [name for name in (DATABASE, *_FOLDERS) if (data_dir / name).exists()]
    if present and not replace:
        raise BackupError(
            f"{data_dir} holds documents already. Choose another DRAGON_DATA_DIR, or restore with "
            "--replace to put the backup in their place."
        )
    if DATABASE in present:
        _require_idle(data_dir / DATABASE)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore.", dir=data_dir) as directory:
        new = Path(directory)
        with _opened(archive) as (file, contents):
            for name in contents.files:
                path = new / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with file.open(name) as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
                    target.flush()
                    os.fsync(target.fileno())
        _take_rows(new)
        _swap(new, data_dir)
    return contents


def _swap(new: Path, data_dir: Path) -> None:
    """Replace the old files by the new ones; put the old ones back if that fails."""
    old = new / "old"
    old.mkdir()
    present = (*_FOLDERS, DATABASE)
    leaving = (*present, f"{DATABASE}-wal", f"{DATABASE}-shm", "kv")
    moves = [(data_dir / name, old / name) for name in leaving]
    moves += [(new / name, data_dir / name) for name in present]
    done = []
    try:
        for source, target in moves:
            if source.exists():
                source.replace(target)
                done.append((target, source))
    except OSError as error:
        for target, source in reversed(done):
            target.replace(source)
        raise BackupError(f"The backup cannot be put into place: {error}") from error


def _require_idle(database: Path) -> None:
    """Raise if another connection is open: only the last one can leave WAL mode."""
    with closing(sqlite3.connect(database, timeout=0)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            raise BackupError("A device uses this data directory. Stop it first.") from None
        except sqlite3.DatabaseError:
            pass  # a damaged database does not prevent a restore


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[zipfile.ZipFile, Contents]]:
    damaged = BackupError(f"{archive} is damaged, or no backup of DRAGON.")
    try:
        with zipfile.ZipFile(archive) as file:
            contents = Contents(**json.loads(file.read(_LIST)))
            if contents.version != VERSION:
                raise BackupError(f"{archive} was made by another version of DRAGON.")
            sizes = {each.filename: each.file_size for each in file.infolist()}
            sizes.pop(_LIST)
            if sizes != contents.files or DATABASE not in sizes:
                raise damaged
            if strange := [name for name in sizes if not _OURS.fullmatch(name)]:
                raise BackupError(f"{archive} has an entry of no backup: {strange[0][:80]!r}.")
            yield file, contents
    except FileNotFoundError:
        raise BackupError(f"There is no file {archive}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, TypeError, ValueError):
        raise damaged from None
    except RuntimeError:  # an entry is encrypted, or its compression is unknown
        raise damaged from None
    except OSError as error:
        raise BackupError(f"{archive} cannot be unpacked: {error.strerror}.") from error


# The rows of a database that an older version or somebody else may have written.


_AT_ONCE = 1000
_VERSIONS = "alembic_version"
# Folders watched on another machine are not watched here.
_LEFT_OUT = frozenset({_VERSIONS, "watched_files", "watched_folders"})
_INDEXED = """
INSERT INTO message_search(text, message, conversation)
SELECT text, id, conversation_id FROM messages WHERE role = 'user' OR state != 'writing'
"""


def _foreign(why: str) -> BackupError:
    return BackupError(f"The backup cannot be restored: {why}.")


def _take_rows(directory: Path) -> None:
    """Replace the database by one that our migrations made, with the same rows."""
    source = directory / "unpacked.db"
    (directory / DATABASE).replace(source)
    try:
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as foreign:
            foreign.execute("PRAGMA trusted_schema = OFF")  # nothing in its schema runs
            (state,) = foreign.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise _foreign(f"the database is damaged: {state}")
            migrate(database_url(directory), _version(foreign))
            with closing(sqlite3.connect(directory / DATABASE)) as own, own:
                _copy(foreign, own)
        migrate(database_url(directory))
    except CommandError as error:
        raise BackupError("The backup was made by a newer version of DRAGON.") from error
    except (DatabaseError, sqlite3.Error, OverflowError, UnicodeError) as error:
        raise _foreign(f"the database is damaged: {error}") from error
    finally:
        source.unlink()


def _version(foreign: sqlite3.Connection) -> str:
    _require_table(foreign, _VERSIONS)
    match foreign.execute(f"SELECT version_num FROM {_VERSIONS}").fetchall():  # noqa: S608
        case [(str(version),)] if version.isdecimal():
            return version
    raise _foreign("the database has no version")


def _require_table(foreign: sqlite3.Connection, name: str) -> None:
    """Raises BackupError unless a name is that of an ordinary table."""
    kind = "SELECT type, sql FROM sqlite_master WHERE name = ?"
    found = foreign.execute(kind, (name,)).fetchall()
    if [each for each, _ in found] != ["table"] or "virtual" in found[0][1][:30].lower():
        raise _foreign(f"the database has no table {name}")


def _copy(foreign: sqlite3.Connection, own: sqlite3.Connection) -> None:
    listed = "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    made = {name: sql or "" for name, sql in own.execute(listed).fetchall()}
    # Full-text tables are built from others.
    built = ("sqlite_", *(name for name, sql in made.items() if sql.startswith("CREATE VIRTUAL")))
    for table in made:
        if table in _LEFT_OUT or table.startswith(built):
            continue
        _require_table(foreign, table)
        columns = _columns(own, table)
        if not set(columns) <= set(_columns(foreign, table)):
            raise _foreign(f"the table {table} is another one")
        named = ", ".join(f'"{column}"' for column in columns)
        rows = foreign.execute(f'SELECT {named} FROM "{table}"')  # noqa: S608
        marks = ", ".join("?" * len(columns))
        while some := rows.fetchmany(_AT_ONCE):
            own.executemany(f'INSERT INTO "{table}" ({named}) VALUES ({marks})', some)  # noqa: S608
    if "watched_files" in made:
        # Documents of a folder stay, as if they had been uploaded.
        own.execute("UPDATE documents SET by_hand = 1")
    if "message_search" in made:
        own.execute(_INDEXED)
    for name, last in foreign.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
        own.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
    if own.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise _foreign("the database refers to missing rows")


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))]
