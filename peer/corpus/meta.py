"""The note of what a corpus holds and was made with, `meta.json`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

VERSION = 3
META = "meta.json"


@dataclass(frozen=True)
class CorpusInfo:
    """What a corpus holds and what it was made with; `digest` is the source file's SHA-256."""

    version: int
    documents: int
    passages: int
    dimension: int
    embedder: str
    source: str
    built: str
    digest: str = ""  # of a corpus built by an earlier version


def outdated(path: Path, source: Path) -> bool:
    """Whether a corpus was made from a file of this name, by an older version or of other text."""
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        if meta["source"] != source.name:
            return False
        return bool(meta["version"] < VERSION) or meta.get("digest") != digest_of(source)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def digest_of(source: Path) -> str:
    """The SHA-256 of a file."""
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
