"""Citations of private documents in stored answers, and their removal with a document."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

GONE = "deleted document"
"""Shown in place of a deleted document's name."""

_NOTHING = {
    "id": "",
    "title": GONE,
    "text": "",
    "page": None,
    "start": None,
    "end": None,
    "around": "",
}


def cited(record: dict[str, Any]) -> set[str]:
    """Ids of the private documents a record names: its passages and those it was limited to."""
    passages = [*record.get("sources", []), *record.get("closest", [])]
    own = {source["id"] for source in passages if source["side"] == "private"}
    return own | set(_chosen(record))


def without(record: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """The record without passages, offsets, names and ids of deleted documents.

    A source keeps its index and weight, since tokens refer to sources by index.
    """
    if cited(record).isdisjoint(gone):
        return record
    sources = [
        source | _NOTHING | {"deleted": True}
        if source["side"] == "private" and source["id"] in gone
        else source
        for source in record.get("sources", [])
    ]
    kept = record | {"sources": sources}
    if closest := record.get("closest"):
        kept["closest"] = [source for source in closest if source["id"] not in gone]
    if chosen := _chosen(record):
        left = [document for document in chosen if document not in gone]
        kept["asked"] = record["asked"] | {"documents": left}
    return kept


def _chosen(record: dict[str, Any]) -> list[str]:
    """Ids of the documents that a question was limited to, if any."""
    return record.get("asked", {}).get("documents") or []
