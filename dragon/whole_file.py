"""Atomic and durable writes: a file is replaced by a rename, never written in place."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def synchronise(*paths: Path) -> None:
    """Flush files and directories to disk, so that they survive a power cut. Blocks."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file durably, creating its directory if needed. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    synchronise(path.parent)
