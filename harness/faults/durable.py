"""The state of a directory after a power cut: only what was synchronised, or any part of the rest.

The strictest reading of POSIX: a file's bytes are durable once it is synchronised, its name once
its directory is. Later writes may survive or not, independently. SQLite's files are taken as of its
last commit, which it synchronises itself (`synchronous = FULL`).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock


@dataclass
class Durable:
    """The durable state of everything under `root`, all of which is durable at first.

    `database` names a file that SQLite writes; the files beside it with that prefix belong to it.
    """

    root: Path
    database: str
    _bytes: dict[int, bytes] = field(default_factory=dict)  # of files, by inode
    _names: dict[int, dict[str, int]] = field(default_factory=dict)  # of directories
    _held: dict[int, int] = field(default_factory=dict)  # open files, to reserve inodes
    _committed: Path | None = None
    lock: RLock = field(default_factory=RLock)
    """Held while SQLite commits: power does not fail between a commit and its recording."""

    def __post_init__(self) -> None:
        for directory in (self.root, *(each for each in self.root.rglob("*") if each.is_dir())):
            self._listed(directory)
            for path in directory.iterdir():
                if path.is_file() and not self._of_database(path):
                    self._written(path)
        self.committed()

    def watch(self) -> None:
        """Follow this process's `os.fsync` from now on."""
        sync = os.fsync

        def followed(descriptor: int) -> None:
            sync(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_relative_to(self.root):
                (self._listed if path.is_dir() else self._written)(path)

        os.fsync = followed  # type: ignore[assignment]

    def committed(self) -> None:
        """Copy the database, which has just committed."""
        copy = Path(tempfile.mkdtemp())
        for path in self.root.glob(f"{self.database}*"):
            shutil.copyfile(path, copy / path.name)
        if self._committed is not None:
            shutil.rmtree(self._committed)
        self._committed = copy

    def cut(self, out: Path, chance: random.Random | None = None) -> None:
        """Write to `out` what survives: what is durable, and by chance some of the rest."""
        with self.lock:
            paths = (path for path in (self.root, *self.root.rglob("*")) if path.exists())
            now = {path.stat().st_ino: path for path in paths}
            self._restore(
                self.root.stat().st_ino, out, now, lambda: bool(chance and chance.random() < 0.5)
            )
            assert self._committed is not None
            for path in self._committed.iterdir():
                if not path.name.endswith("-shm"):
                    shutil.copyfile(path, out / path.name)
            shutil.rmtree(self._committed)

    def _restore(
        self, inode: int, out: Path, now: dict[int, Path], kept: Callable[[], bool]
    ) -> None:
        out.mkdir()
        names = self._names.get(inode, {})
        if kept() and inode in now:
            names = {path.name: path.stat().st_ino for path in now[inode].iterdir()}
        for name, each in names.items():
            if each in self._names or (each in now and now[each].is_dir()):
                self._restore(each, out / name, now, kept)
            elif not name.startswith(self.database):
                content = self._bytes.get(each, b"")
                if kept() and each in now:
                    content = now[each].read_bytes()
                (out / name).write_bytes(content)

    def _written(self, path: Path) -> None:
        self._bytes[self._hold(path)] = path.read_bytes()

    def _listed(self, directory: Path) -> None:
        names = {path.name: self._hold(path) for path in directory.iterdir()}
        self._names[self._hold(directory)] = names

    def _hold(self, path: Path) -> int:
        """A path's inode, held so that it is not reused."""
        descriptor = os.open(path, os.O_RDONLY)
        inode = os.fstat(descriptor).st_ino
        if inode in self._held:
            os.close(descriptor)
        else:
            self._held[inode] = descriptor
        return inode

    def _of_database(self, path: Path) -> bool:
        return path.parent == self.root and path.name.startswith(self.database)
