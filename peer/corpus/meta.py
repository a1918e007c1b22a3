"""The note of what a corpus holds and was made with, `meta.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

VERSION = 3
META = "meta.json"


@dataclass(frozen=True)
class CorpusInfo:
    """What a corpus holds and what it was made with."""

    version: int
    documents: int
    passages: int
    dimension: int
    embedder: str
    source: str
    built: str


def outdated(path: Path, source: str) -> bool:
    """Whether there is a corpus of an older version, made from a file of this name."""
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        return bool(meta["version"] < VERSION and meta["source"] == source)
    except (OSError, ValueError, TypeError, KeyError):
        return False
