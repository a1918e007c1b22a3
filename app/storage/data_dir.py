"""The data directory: one device at a time, and never restarted from nothing over old data."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.storage.database import DATABASE
from dragon.errors import ConfigurationError

_LOCK = "device.lock"
_SERVED = "served"
"""A file that marks that a database was created here."""


class InUseError(ConfigurationError):
    """Another device is using the directory."""


@contextmanager
def owned(data_dir: Path) -> Iterator[None]:
    """Keep every other device out of the directory, which is created if needed.

    The system releases it when the process ends, in whatever way. Raises `InUseError` while another
    process has it.
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
