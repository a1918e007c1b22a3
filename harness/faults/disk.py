"""A failing disk: full, broken, or with the database locked by another process."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path

from sqlalchemy.exc import OperationalError

from app.storage.database import DATABASE


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Another process is writing to the database, and does not finish."""
    with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def small_disk(at: Path, size: int) -> Iterator[None]:
    """A file system of `size` bytes, mounted at a new directory. Needs Linux and root."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def full() -> OSError:
    """The system's error for a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Failure(StrEnum):
    """How an operation on files or database fails."""

    FULL = "full disk"
    BROKEN = "broken disk"
    LOCKED = "locked database"

    def error(self, *, statement: bool) -> Exception | None:
        """The error of a file change, or of a statement; None if it succeeds."""
        if statement:
            name, message = _OF_STATEMENTS[self]
            said = sqlite3.OperationalError(message)
            said.sqlite_errorname = name
            return OperationalError("a statement", {}, said)
        match self:
            case Failure.FULL:
                return full()
            case Failure.BROKEN:
                return OSError(errno.EIO, os.strerror(errno.EIO))
            case Failure.LOCKED:
                return None


_OF_STATEMENTS = {
    Failure.FULL: ("SQLITE_FULL", "database or disk is full"),
    Failure.BROKEN: ("SQLITE_IOERR", "disk I/O error"),
    Failure.LOCKED: ("SQLITE_BUSY", "database is locked"),
}
