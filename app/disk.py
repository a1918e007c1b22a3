"""Disk errors and free space."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

from sqlalchemy.exc import OperationalError

from dragon.errors import StorageError
from dragon.localizable import localizable

RESERVED_BYTES = 64 << 20
"""Disk space that uploads leave free, for the database, the ledger and the log."""
_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
_SQLITE = re.compile(r"SQLITE_(FULL|IOERR|BUSY|LOCKED|CANTOPEN|READONLY)")


def is_of_disk(error: BaseException) -> bool:
    """Whether an operation failed because the disk cannot be written, and may succeed later."""
    if isinstance(error, OperationalError):
        return bool(_SQLITE.match(getattr(error.orig, "sqlite_errorname", "")))
    return isinstance(error, OSError) and error.errno in _ERRNOS


def cause_of(error: BaseException) -> str:
    """The disk's error message, without the statement that failed."""
    return str(error.orig if isinstance(error, OperationalError) else error)


def require_room(directory: Path, size: int) -> None:
    """Raises `StorageError` unless the disk has room for `size` more bytes."""
    free = shutil.disk_usage(directory).free
    if free < size + RESERVED_BYTES:
        raise StorageError(
            localizable(
                "disk.full",
                "The device's disk is nearly full ({free} MiB free). Make room, and send the file "
                "again.",
                free=free >> 20,
            )
        )
