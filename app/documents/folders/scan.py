"""Scans a folder for its files, and reads one. Everything blocks.

Folders are opened one path component at a time and through no symbolic link: whoever may rename or
link anything on the way could otherwise redirect a scan to another person's files or to the
device's own. The target of a link is outside of the folder, or is found in it. Opening raises
OSError for a path that does not exist, is a link, or may not be read.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from app.documents.uploads import MAX_BYTES

RULES = (".gitignore", ".dragonignore")
"""Names of files with rules, in any directory; the latter's rules take precedence."""

_LONGEST = 64 * 1024  # bytes of rules that are read of a file

# Hidden files, installed packages, half-written files, what file browsers leave.
_USUAL = (
    ".*", "node_modules/", "__pycache__/", "*~", "~$*", "[#]*[#]",
    "*.sw[a-p]", "*.tmp", "*.part", "*.partial", "*.crdownload", "Thumbs.db", "desktop.ini",
)  # fmt: skip


@dataclass(frozen=True)
class Ignored:
    """The rules that hold in a directory, the outermost first, each with the directory they are in.

    Their syntax is that of `.gitignore`. The rules nearest to an entry decide, the usual ones last;
    nothing in a directory that is left out is looked at.
    """

    rules: tuple[tuple[str, GitIgnoreSpec], ...]

    def __call__(self, path: str) -> bool:
        """Whether an entry of the folder is left out; a directory's path ends in /."""
        for directory, spec in reversed(self.rules):
            decided = spec.check_file(path.removeprefix(directory)).include
            if decided is not None:
                return decided
        return False

    def within(self, directory: int, relative: str) -> Ignored:
        """With the rules of an open directory; its path `relative` is "" or ends in /."""
        patterns = [line for name in RULES for line in _patterns(directory, name)]
        spec = GitIgnoreSpec.from_lines(patterns)
        return Ignored((*self.rules, (relative, spec))) if patterns else self


def _patterns(directory: int, name: str) -> Iterator[str]:
    """The valid patterns of a file of rules; git, too, skips invalid ones."""
    try:
        descriptor = os.open(name, _SAFELY, dir_fd=directory)
    except OSError:  # usually there is none
        return
    with open(descriptor, "rb") as file:
        rules = file.read(_LONGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    for line in rules.decode("utf-8", "replace").splitlines():
        with suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            yield line


USUAL = Ignored((("", GitIgnoreSpec.from_lines(_USUAL)),))
"""The rules that hold everywhere, unless a folder's own say otherwise."""


Identity = tuple[int, int]
"""Device and inode, which tell a directory from a later one at its path."""

MOST_DIRECTORIES, MOST_FILES = 10_000, 50_000
"""The most in a folder: a folder of the system has more, but nobody's documents."""

_MAILDIR = frozenset({"cur", "new", "tmp"})

_DENIED = errno.EACCES, os.strerror(errno.EACCES)
_SAFELY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LISTED = _SAFELY | os.O_DIRECTORY
# A directory that is only passed through need not be readable, where the system has O_PATH.
_PASSED = _LISTED | getattr(os, "O_PATH", 0)


def identity(status: os.stat_result) -> Identity:
    """The identity of the file or directory with this status."""
    return status.st_dev, status.st_ino


def is_made_up(status: os.stat_result) -> bool:
    """Whether the kernel generates a file, as in /proc, which shows programs' environments."""
    return any(
        os.path.ismount(place) and Path(place).stat().st_dev == status.st_dev
        for place in ("/proc", "/sys")
    )


@dataclass(frozen=True)
class Reader:
    """The owner of a folder, who may link files into it that only the device may read."""

    user: int
    groups: frozenset[int]

    @classmethod
    def of(cls, root: os.stat_result) -> Reader | None:
        """The owner of a folder; None for root or the device's own account."""
        if root.st_uid in (0, os.geteuid()):
            return None
        try:
            account = pwd.getpwuid(root.st_uid)
        except KeyError:  # an account of another machine, or outside of a container
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
    def below(self, relative: str, *, listed: bool) -> Iterator[int]:
        """Open a directory to be `listed`, or a file to be read; "" is the folder itself."""
        names, flags = relative.split("/"), _LISTED if listed else _SAFELY
        descriptor = _walk(os.dup(self.descriptor), names, flags, self.apart)
        try:
            status = os.fstat(descriptor)
            if self.reader is not None and not self.reader.may_read(status):
                raise PermissionError(*_DENIED)
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def opened(path: Path, apart: Path) -> Iterator[Root]:
    """Open the folder at an absolute path that leads through no link, nor through `apart`."""
    own = identity(apart.stat()) if apart.exists() else None
    descriptor = _walk(os.open(path.anchor, _PASSED), path.parts[1:], _LISTED, own)
    try:
        status = os.fstat(descriptor)
        if is_made_up(status):
            raise PermissionError(*_DENIED)
        yield Root(descriptor, identity(status), own, Reader.of(status))
    finally:
        os.close(descriptor)


def identity_of(path: Path, apart: Path) -> Identity:
    """The identity of the folder that has this path now."""
    with opened(path, apart) as root:
        return root.identity


def _walk(start: int, names: Iterable[str], flags: int, apart: Identity | None) -> int:
    """Open a path below a directory, which this closes; `flags` are for its last component."""
    here, rest = start, [name for name in names if name]
    try:
        # Even the start is opened again: it may be open for passing through alone.
        for number, name in enumerate(rest or ["."], 1):
            above = here
            here = os.open(name, flags if number >= len(rest) else _PASSED, dir_fd=above)
            os.close(above)
            if identity(os.fstat(here)) == apart:
                raise PermissionError(*_DENIED)
    except OSError:
        os.close(here)
        raise
    return here


class ScanEndedError(Exception):
    """A scan was stopped before its end."""


class FolderTooLargeError(Exception):
    """A folder has more directories or files than can be watched."""


@dataclass(frozen=True)
class Mark:
    """Tells one state of a file from another; `changed_ns` is of its content or its inode."""

    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Mark:
        """The mark of a file with this status."""
        # A file that is moved or copied here may bring an old modification time.
        return cls(status.st_size, max(status.st_mtime_ns, status.st_ctime_ns))


@dataclass
class Scan:
    """The files of a folder, by relative paths that can be shown, each with its real path.

    `directories` are those looked into, and `closed` those that could not be (relative, ending in
    /). `bare`: it has no entry at all.
    """

    identity: Identity
    bare: bool
    files: dict[str, tuple[str, Mark]] = field(default_factory=dict)
    directories: dict[str, Identity] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)


def scan(root: Path, apart: Path, stopped: Callable[[], bool] = lambda: False) -> Scan:
    """The files of a folder, but for those `apart`. Raises OSError and the errors above."""
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
            looked = len(found.directories) + len(waiting)
            if looked > MOST_DIRECTORIES or len(found.files) > MOST_FILES:
                raise FolderTooLargeError
    return found


def _look_into(
    root: Root, relative: str, above: Ignored, found: Scan
) -> Iterator[tuple[str, Ignored]]:
    """Note the files of a directory; yields the directories in it to look into. Raises OSError."""
    with root.below(relative, listed=True) as directory:
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
            rules = ignored
            if mail and _is_maildir(directory, entry.name):
                rules = Ignored(tuple(each for each in ignored.rules if each not in USUAL.rules))
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


def content_of(root: Path, apart: Path, path: str) -> tuple[bytes, Mark] | None:
    """A file's content, cut if too large; None if it changed meanwhile. Raises OSError."""
    with opened(root, apart) as folder, folder.below(path, listed=False) as descriptor:
        before = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1) if stat.S_ISREG(before.st_mode) else b""
        after = os.fstat(descriptor)
    if not stat.S_ISREG(after.st_mode) or Mark.of(before) != Mark.of(after):
        return None
    return data, Mark.of(after)
