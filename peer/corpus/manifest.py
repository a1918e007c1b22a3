"""The note of what a version of the corpus holds and was made with, `manifest.json`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from dragon.errors import ConfigurationError

FORM = 4
MANIFEST = "manifest.json"
FLAT_UP_TO = 100_000
"""Passages of a shard that are searched one by one, in memory; more of them get an index."""


@dataclass(frozen=True)
class Source:
    """A file that documents were taken from; `digest` is its SHA-256."""

    name: str
    digest: str
    documents: int


@dataclass(frozen=True)
class File:
    """What a file has to be: its size and its SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a version holds and what it was made with.

    `words` counts those of all titles and texts, `embedder` is its fingerprint. `files` are named
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
    sources: tuple[Source, ...]
    built: str
    files: dict[str, File]

    @classmethod
    def read(cls, version: Path) -> Manifest:
        """That of a version's directory. Raises FileNotFoundError, or ValueError if it is none."""
        return _JSON.validate_json((version / MANIFEST).read_bytes())

    def json(self) -> str:
        """As it is written."""
        return _JSON.dump_json(self, indent=2).decode() + "\n"

    def verify(self, version: Path) -> None:
        """Read every file. Raises ConfigurationError naming the first that is not as it was."""
        for name, file in self.files.items():
            path = version / name
            try:
                same = path.stat().st_size == file.bytes and digest_of(path) == file.sha256
            except OSError as error:
                raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from error
            if not same:
                raise ConfigurationError(f"{path} is not as it was built")


_JSON = TypeAdapter(Manifest)


def described(path: Path) -> File:
    """What a file is now."""
    return File(path.stat().st_size, digest_of(path))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
