"""What is in a folder: its files with their marks, and the content of one. Everything blocks.

Symbolic links are not followed: what they lead to is somewhere else, or is found there.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.documents.folders.ignore import USUAL, Ignored
from app.documents.uploads import MAX_BYTES

_MAILDIR = frozenset({"cur", "new", "tmp"})
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


Identity = tuple[int, int]
"""Tells a directory from another that has its path at another time."""


@dataclass(frozen=True)
class Mark:
    """Tells one state of a file from another without reading it.

    `changed_ns` is when its content or its inode changed last, in Unix nanoseconds.
    """

    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Mark:
        """The mark of a file with this status."""
        # A file that is moved or copied here may bring an old modification time.
        return cls(status.st_size, max(status.st_mtime_ns, status.st_ctime_ns))


@dataclass(frozen=True)
class Content:
    """What a file held at a moment; `sha256` is hexadecimal."""

    data: bytes
    mark: Mark

    @property
    def sha256(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass
class Scan:
    """The files of a folder, by paths relative to it that can be shown, with where they are.

    `closed` are directories that could not be listed (relative, ending in /). `bare`: it has no
    entry at all.
    """

    identity: Identity
    bare: bool
    files: dict[str, tuple[Path, Mark]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    def knows_of(self, path: str) -> bool:
        """Whether a file that is not in `files` is known not to be there."""
        return not any(path.startswith(directory) for directory in self.closed)


def identity_of(root: Path) -> Identity:
    """Of a directory. Raises OSError."""
    status = root.stat()
    return status.st_dev, status.st_ino


def scan(root: Path, apart: Path) -> Scan:
    """The files of a folder, without the directory `apart`. Raises OSError if it is not there."""
    with os.scandir(root) as entries:
        found = Scan(identity_of(root), bare=next(entries, None) is None)
    waiting: list[tuple[str, Ignored]] = [("", USUAL)]
    while waiting:
        relative, above = waiting.pop()
        directory = root / relative
        try:
            with os.scandir(directory) as opened:
                entries_here = list(opened)
        except OSError:
            found.closed.append(_shown(relative))
            continue
        ignored = above.within(directory, relative)
        for entry, inside in _taken(entries_here, relative, ignored):
            path = relative + entry.name
            if inside is not None:
                if root / path != apart:
                    waiting.append((f"{path}/", inside))
                continue
            try:
                mark = Mark.of(entry.stat(follow_symlinks=False))
            except OSError:  # gone at this moment
                continue
            found.files[_shown(path)] = root / path, mark
    return found


def _taken(
    entries: list[os.DirEntry[str]], relative: str, ignored: Ignored
) -> Iterator[tuple[os.DirEntry[str], Ignored | None]]:
    """Files, and directories with the rules inside, that are not left out."""
    directories = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    mail = directories >= _MAILDIR
    for entry in entries:
        path = relative + entry.name
        if entry.name in directories:
            # Mail is written in `tmp`; other mailboxes within have names like `.Sent`.
            rules = ignored.but_usual() if mail and _is_maildir(entry.path) else ignored
            if not (mail and entry.name == "tmp") and not rules(f"{path}/"):
                yield entry, rules
        elif entry.is_file(follow_symlinks=False) and not mail and not ignored(path):
            yield entry, None


def _is_maildir(directory: str) -> bool:
    return all(Path(directory, name).is_dir() for name in _MAILDIR)


def _shown(path: str) -> str:
    """A path as text: names of files may be any bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def content_of(path: Path) -> Content | None:
    """What a file holds; None if it changed meanwhile, or is no file any more.

    Of a file over `MAX_BYTES` only so much that this can be told. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    with open(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        data = file.read(MAX_BYTES + 1) if stat.S_ISREG(before.st_mode) else b""
        after = os.fstat(descriptor)
    if not stat.S_ISREG(after.st_mode) or Mark.of(before) != Mark.of(after):
        return None
    return Content(data, Mark.of(after))
