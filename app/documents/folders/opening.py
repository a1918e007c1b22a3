"""Opens what is in a watched folder: a component at a time, and through no symbolic link.

Whoever may rename or link anywhere on the way could else lead a look at the folder elsewhere, to
another person's files or to the device's own. Everything blocks, and raises OSError for what is not
there, is a link, or may not be read.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Identity = tuple[int, int]
"""Tells a directory from another that has its path at another time."""

_SAFELY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LISTED = _SAFELY | os.O_DIRECTORY
# What is only passed through need not be one that may be listed, where the system knows of that.
_PASSED = _LISTED | getattr(os, "O_PATH", 0)


def identity(status: os.stat_result) -> Identity:
    """Of what has this status."""
    return status.st_dev, status.st_ino


def is_made_up(status: os.stat_result) -> bool:
    """Whether the system makes a file up as it is read, such as the environment of a program."""
    return any(
        os.path.ismount(place) and Path(place).stat().st_dev == status.st_dev
        for place in ("/proc", "/sys")
    )


@dataclass(frozen=True)
class Reader:
    """The system account that a folder is of, for a device that may itself read everything."""

    user: int
    groups: frozenset[int]

    @classmethod
    def of(cls, root: os.stat_result) -> Reader | None:
        """Who may read a folder; None where the system itself sees to that."""
        if os.geteuid() != 0 or root.st_uid == 0:
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
    """Of the folder that has this path now."""
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
