"""Fixed documents, from an experiment to both services."""

from __future__ import annotations

from pathlib import Path

from harness import fixed_documents
from harness.fixed_documents import Query
from harness.reference import Passage


def test_what_is_saved_is_loaded_by_side(tmp_path: Path) -> None:
    path = tmp_path / "documents.json"
    queries = [Query("a", (Passage("own", 0.5),), (Passage("public", 0.25),))]
    fixed_documents.save(queries, path)
    assert fixed_documents.load(path, "device") == {"a": [Passage("own", 0.5)]}
    assert fixed_documents.load(path, "cloud") == {"a": [Passage("public", 0.25)]}
