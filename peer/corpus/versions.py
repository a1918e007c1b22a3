"""The versions of a corpus in its directory, and which of them is served.

   current        the name of the version that is served
   v1/ v2/ ...    versions; their files never change, and `manifest.json` describes them
   building/      the next version, until it is complete

A build keeps the version that was served before, to switch back to.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from dragon.errors import ConfigurationError
from dragon.whole_file import synchronise, write_whole

FORM = 4
MANIFEST = "manifest.json"
FLAT_UP_TO = 100_000
"""The most passages of a shard that are searched exhaustively, in memory; more get an index."""

CURRENT, BUILDING = "current", "building"
BUILD = "Build it again with `dragon corpus build`"


class Versions:
    """The versions in directory `root`, which need not exist."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def names(self) -> list[str]:
        return [f"v{n}" for n in self._numbers() if (self.root / f"v{n}" / MANIFEST).exists()]

    @property
    def current(self) -> str:
        """The name of the version that is served. Raises ConfigurationError if there is none."""
        try:
            return (self.root / CURRENT).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{self.root / CURRENT} cannot be read. Name the version to serve with "
                "`dragon corpus switch`."
            ) from error
        if (self.root / BUILDING).exists():
            raise ConfigurationError(
                f"The corpus at {self.root} is not whole yet. Run the same `dragon corpus build` "
                "again: it resumes where it was."
            )
        raise ConfigurationError(f"There is no corpus at {self.root}. {BUILD}.")

    @property
    def mark(self) -> tuple[int, int] | None:
        """A value that changes whenever a version is chosen to be served."""
        with contextlib.suppress(OSError):
            found = (self.root / CURRENT).stat()
            return found.st_ino, found.st_mtime_ns
        return None

    def path(self, name: str) -> Path:
        """A version's directory. Raises ConfigurationError if there is no such version."""
        if name not in self.names:
            have = ", ".join(self.names) or "none"
            raise ConfigurationError(
                f"There is no version {name} of the corpus at {self.root}; there are: {have}. "
                "Name one with `dragon corpus switch`."
            )
        return self.root / name

    def manifest(self, name: str) -> Manifest:
        """A version's manifest. Raises ConfigurationError if it is damaged or of another form."""
        path = self.path(name)
        try:
            manifest = Manifest.read(path)
        except (OSError, ValueError) as error:
            raise self.damaged(name, f"{path / MANIFEST} cannot be read") from error
        if manifest.form != FORM:
            raise ConfigurationError(f"{path} has form {manifest.form}, not {FORM}. {BUILD}.")
        return manifest

    def damaged(self, name: str, what: object) -> ConfigurationError:
        """The error for a damaged version, which says what to do."""
        message = f"The corpus at {self.root} is damaged: {what}. {BUILD}"
        if others := [other for other in self.names if other != name]:
            message += f", or serve another version with `dragon corpus switch {others[-1]}`"
        return ConfigurationError(f"{message}.")

    def serve(self, name: str) -> None:
        """Choose the version to serve; a running peer follows."""
        write_whole(self.root / CURRENT, f"{name}\n")
        (self.root / CURRENT).chmod(0o644)  # like the versions: a peer may run as another user

    @contextmanager
    def building(self) -> Iterator[Path]:
        """The directory of the next version, for one process at a time.

        It may hold an earlier build's work. Raises ConfigurationError if another process is
        building, or `root` is something else.
        """
        ours = (self.root / CURRENT, self.root / BUILDING)
        if self.root.exists() and any(self.root.iterdir()) and not any(p.exists() for p in ours):
            raise ConfigurationError(
                f"{self.root} exists and is not a corpus. Choose another place."
            )
        directory = self.root / BUILDING
        directory.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield directory
        except BlockingIOError:
            raise ConfigurationError(
                f"Another process is building the corpus at {self.root}."
            ) from None
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Remove the next version, and the directory of a corpus without versions."""
        shutil.rmtree(self.root / BUILDING)
        with contextlib.suppress(OSError):
            self.root.rmdir()

    def publish(self) -> Path:
        """Make the complete next version the one that is served; returns its directory."""
        kept, name = "", f"v{max(self._numbers(), default=0) + 1}"
        with contextlib.suppress(ConfigurationError):
            kept = self.current
        next_one = self.root / BUILDING
        synchronise(*next_one.rglob("*"), next_one)
        next_one.rename(self.root / name)
        synchronise(self.root)
        self.serve(name)
        for other in self.names:
            if other not in (name, kept):
                shutil.rmtree(self.root / other)
        return self.root / name

    def _numbers(self) -> list[int]:
        names = (path.name for path in self.root.glob("v*"))
        return sorted(int(name[1:]) for name in names if re.fullmatch(r"v\d+", name))


def outdated(root: Path, source: Path) -> bool:
    """Whether a corpus made of this file alone has another form or text, or was not finished."""
    versions = Versions(root)
    try:
        if (root / CURRENT).exists():
            manifest = Manifest.read(versions.path(versions.current))
            (made_from,) = manifest.sources
            same = (manifest.form, made_from.digest) == (FORM, digest_of(source))
            return made_from.name == source.name and not same
    except (ConfigurationError, OSError, ValueError):
        return False
    return (root / BUILDING).exists()


class SourceFile(BaseModel, frozen=True):
    """A file that documents were read from; `digest` is its SHA-256."""

    name: str
    digest: str
    documents: int


class FileDigest(BaseModel, frozen=True):
    """The expected size and SHA-256 of a file."""

    bytes: int
    sha256: str


class Manifest(BaseModel, frozen=True):
    """A version's contents, and what it was built with.

    `words` counts those of all titles and texts, `embedder` is its fingerprint. `files` are keyed
    by their path in the version's directory.
    """

    form: int
    documents: int
    passages: int
    words: int
    dimension: int
    embedder: str
    shards: int
    flat_up_to: int
    sources: tuple[SourceFile, ...]
    built: str
    files: dict[str, FileDigest]

    @classmethod
    def read(cls, version: Path) -> Manifest:
        """A version's manifest. Raises FileNotFoundError, or ValueError if it is invalid."""
        return cls.model_validate_json((version / MANIFEST).read_bytes())

    def verify(self, version: Path) -> None:
        """Read every file. Raises ConfigurationError naming the first that has changed."""
        for name, file in self.files.items():
            path = version / name
            try:
                same = path.stat().st_size == file.bytes and digest_of(path) == file.sha256
            except OSError as error:
                raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from error
            if not same:
                raise ConfigurationError(f"{path} is not as it was built")


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
