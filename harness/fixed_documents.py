"""Fixed documents for a query, instead of a search: saved by experiments, loaded by services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.reference import Passage


@dataclass(frozen=True)
class Query:
    """A prompt and the documents of each side, best first."""

    text: str
    device: tuple[Passage, ...]
    cloud: tuple[Passage, ...]


def save(queries: Sequence[Query], path: Path) -> None:
    """Write the documents of each side for `harness.serve`."""
    sides = {
        "device": {each.text: [(p.text, p.score) for p in each.device] for each in queries},
        "cloud": {each.text: [(p.text, p.score) for p in each.cloud] for each in queries},
    }
    path.write_text(json.dumps(sides), encoding="utf-8")


def load(path: Path, side: str) -> dict[str, list[Passage]]:
    """The documents of one side, "device" or "cloud", by query."""
    found = json.loads(path.read_text(encoding="utf-8"))[side]
    return {text: [Passage(*passage) for passage in passages] for text, passages in found.items()}
