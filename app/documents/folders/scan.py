"""What is in a folder: its files with their marks, and the content of one. Everything blocks.

Folders are opened a component at a time and through no symbolic link: whoever may rename or link
anywhere on the way could else lead a look at the folder elsewhere, to another person's files or to
the device's own. What links lead to is somewhere else, or is found there. Opening raises OSError
for what is not there, is a link, or may not be read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.documents.folders.ignore import USUAL, Ignored
from app.documents.uploads import MAX_BYTES

Identity = tuple[int, int]
"""Tells a directory from another that has its path at another time."""

MOST_DIRECTORIES, MOST_FILES = 10_000, 50_000
"""Of a folder: a system's own has more, which nobody has written."""

_MAILDIR = frozenset({"cur", "new", "tmp"})

_SAFELY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LISTED = _SAFELY | os.O_DIRECTORY
# What is only passed through need not be one that may be listed, where the system knows of that.
_PASSED = _LISTED | getattr(os, "O_PATH", 0)


def identity(status: os.stat_result) -> Identity:
    """The identity of the file or directory with this status."""
    return status.st_dev, status.st_ino


def is_made_up(status: os.stat_result) -> bool:
    """Whether the kernel makes a file up as it is read, as in /proc: a program's environment."""
    return any(
        os.path.ismount(place) and Path(place).stat().st_dev == status.st_dev
        for place in ("/proc", "/sys")
    )


@dataclass(frozen=True)
class Reader:
    """The account that owns a folder: it may link files into it that only the device may read."""

    user: int
    groups: frozenset[int]

    @classmethod
    def of(cls, root: os.stat_result) -> Reader | None:
        """Who may read a folder; None if it is root's, or the device's own account's."""
        if root.st_uid in (0, os.geteuid()):
            return None
        try:
            account = pwd.getpwuid(root.st_uid)
        except KeyError:  # of another machine, or outside of a container
            return cls(root.st_uid, frozenset())
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        return cls(root.st_uid, frozenset(groups))

    def may_read(self, status: os.stat_result) -> bool:
        """Whether the account may read what has this status."""
        if status.st_uid == self.user:
            return bool(status.st_mode & stat.S_IRUSR)
        if status.st_gid in self.groups:
            return bool(status.st_mode & stat.S_IRGRP)
        return bool(status.st_mode & stat.S_IROTH)


@dataclass(frozen=True)
class Root:
    """An open folder; `apart` is a directory that is neither looked into nor passed through."""

    descriptor: int
    identity: Identity
    apart: Identity | None
    reader: Reader | None

    @contextmanager
    def directory(self, relative: str) -> Iterator[int]:
        """A directory below it, to be listed; "" is the folder itself."""
        yield from self._opened(relative.split("/"), _LISTED)

    @contextmanager
    def file(self, relative: str) -> Iterator[int]:
        """What is there now, to be read."""
        yield from self._opened(relative.split("/"), _SAFELY)

    def _opened(self, names: Iterable[str], flags: int) -> Iterator[int]:
        descriptor = _walk(os.dup(self.descriptor), names, flags, self.apart)
        try:
            status = os.fstat(descriptor)
            if self.reader is not None and not self.reader.may_read(status):
                raise _denied()
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def opened(path: Path, apart: Path) -> Iterator[Root]:
    """The folder at an absolute path that leads through no link, nor through `apart`."""
    own = identity(apart.stat()) if apart.exists() else None
    descriptor = _walk(os.open(path.anchor, _PASSED), path.parts[1:], _LISTED, own)
    try:
        status = os.fstat(descriptor)
        if is_made_up(status):
            raise _denied()
        yield Root(descriptor, identity(status), own, Reader.of(status))
    finally:
        os.close(descriptor)


def identity_of(path: Path, apart: Path) -> Identity:
    """The identity of the folder that has this path now."""
    with opened(path, apart) as root:
        return root.identity


def _walk(start: int, names: Iterable[str], flags: int, apart: Identity | None) -> int:
    """Open what is below a directory, which this closes; the last is opened with the flags."""
    here, rest = start, [name for name in names if name]
    try:
        # Opened anew even if it is the start: what is only passed through cannot be listed.
        for number, name in enumerate(rest or ["."], 1):
            above = here
            here = os.open(name, flags if number >= len(rest) else _PASSED, dir_fd=above)
            os.close(above)
            if identity(os.fstat(here)) == apart:
                raise _denied()
    except OSError:
        os.close(here)
        raise
    return here


def _denied() -> PermissionError:
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES))


class ScanEndedError(Exception):
    """A scan was stopped before its end."""


class FolderTooLargeError(Exception):
    """A folder has more directories or files than can be watched."""


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
    """The files of a folder, by relative paths that can be shown, each with its own path.

    `directories` are those looked into, and `closed` those that could not be (relative, ending in
    /). `bare`: it has no entry at all.
    """

    identity: Identity
    bare: bool
    files: dict[str, tuple[str, Mark]] = field(default_factory=dict)
    directories: dict[str, Identity] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    def knows_of(self, path: str) -> bool:
        """Whether a file that is not in `files` is known not to be there."""
        return not any(path.startswith(directory) for directory in self.closed)


def scan(root: Path, apart: Path, stopped: Callable[[], bool] = lambda: False) -> Scan:
    """The files of a folder, without the directory `apart`.

    Raises OSError if it is not there, `FolderTooLargeError`, and `ScanEndedError` once `stopped`.
    """
    with opened(root, apart) as folder:
        with os.scandir(folder.descriptor) as entries:
            found = Scan(folder.identity, bare=next(entries, None) is None)
        waiting: list[tuple[str, Ignored]] = [("", USUAL)]
        while waiting:
            if stopped():
                raise ScanEndedError
            relative, above = waiting.pop()
            try:
                waiting += _look_into(folder, relative, above, found)
            except OSError:
                found.closed.append(_shown(relative))
            if len(found.directories) + len(waiting) > MOST_DIRECTORIES:
                raise FolderTooLargeError
            if len(found.files) > MOST_FILES:
                raise FolderTooLargeError
    return found


def _look_into(
    root: Root, relative: str, above: Ignored, found: Scan
) -> Iterator[tuple[str, Ignored]]:
    """Note the files of a directory; the directories in it that are to be looked into.

    Raises OSError where it cannot be listed.
    """
    with root.directory(relative) as directory:
        with os.scandir(directory) as opened_here:
            entries = list(opened_here)
        found.directories[relative] = identity(os.fstat(directory))
        rules = above.within(directory, relative)
        for entry, inside in _taken(entries, directory, relative, rules):
            path = relative + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # gone at this moment
                continue
            if inside is None:
                found.files[_shown(path)] = path, Mark.of(status)
            elif identity(status) != root.apart and not (
                status.st_dev != root.identity[0] and is_made_up(status)
            ):
                yield f"{path}/", inside


def _taken(
    entries: list[os.DirEntry[str]], directory: int, relative: str, ignored: Ignored
) -> Iterator[tuple[os.DirEntry[str], Ignored | None]]:
    """Files, and directories with the rules inside, that are not left out."""
    directories = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    mail = directories >= _MAILDIR
    for entry in entries:
        path = relative + entry.name
        if entry.name in directories:
            # Mail is written in `tmp`; other mailboxes within have names like `.Sent`.
            inside = mail and _is_maildir(directory, entry.name)
            rules = ignored.but_usual() if inside else ignored
            if not (mail and entry.name == "tmp") and not rules(f"{path}/"):
                yield entry, rules
        elif entry.is_file(follow_symlinks=False) and not mail and not ignored(path):
            yield entry, None


def _is_maildir(directory: int, name: str) -> bool:
    try:
        return all(
            stat.S_ISDIR(os.stat(f"{name}/{box}", dir_fd=directory, follow_symlinks=False).st_mode)
            for box in _MAILDIR
        )
    except OSError:
        return False


def _shown(path: str) -> str:
    """A path as text: names of files may be any bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def content_of(root: Path, apart: Path, path: str) -> Content | None:
    """What a file of a folder holds; None if it changed meanwhile, or is no file any more.

    Of a file over `MAX_BYTES` only so much that this can be told. Raises OSError.
    """
    with opened(root, apart) as folder, folder.file(path) as descriptor:
        before = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1) if stat.S_ISREG(before.st_mode) else b""
        after = os.fstat(descriptor)
    if not stat.S_ISREG(after.st_mode) or Mark.of(before) != Mark.of(after):
        return None
    return Content(data, Mark.of(after))
