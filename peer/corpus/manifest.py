"""What a version of the corpus contains and was built with, `manifest.json`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from dragon.errors import ConfigurationError

FORM = 4
MANIFEST = "manifest.json"
FLAT_UP_TO = 100_000
"""The most passages of a shard that are searched exhaustively, in memory; more get an index."""


@dataclass(frozen=True)
class Source:
    """A file that documents were read from; `digest` is its SHA-256."""

    name: str
    digest: str
    documents: int


@dataclass(frozen=True)
class File:
    """The expected size and SHA-256 of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a version contains and was built with.

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
    sources: tuple[Source, ...]
    built: str
    files: dict[str, File]

    @classmethod
    def read(cls, version: Path) -> Manifest:
        """A version's manifest. Raises FileNotFoundError, or ValueError if it is invalid."""
        return _JSON.validate_json((version / MANIFEST).read_bytes())

    def json(self) -> str:
        """The file's content."""
        return _JSON.dump_json(self, indent=2).decode() + "\n"

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


_JSON = TypeAdapter(Manifest)


def described(path: Path) -> File:
    """A file's current size and digest."""
    return File(path.stat().st_size, digest_of(path))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
