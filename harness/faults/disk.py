"""A disk that fails: full, or with the database in somebody else's hands."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.storage.database import DATABASE


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Another process is writing to the database, and does not get done."""
    with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def small_disk(at: Path, size: int) -> Iterator[None]:
    """A file system of `size` bytes, mounted at a new directory. Linux, and for root."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def full() -> OSError:
    """What the system says of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
