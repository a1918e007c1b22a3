"""What a stored answer tells of the person's documents, and how that goes with a document."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

GONE = "deleted document"
"""Stands for the name of a document that is not there any more."""

_NOTHING = {"id": "", "title": GONE, "text": "", "page": None, "start": None, "end": None}


def cited(record: dict[str, Any]) -> set[str]:
    """The private documents that an answer's record names: its sources, and its choice of them."""
    sources = {source["id"] for source in record.get("sources", []) if source["side"] == "private"}
    return sources | set(_chosen(record))


def without(record: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """The record with nothing told of documents: no passage, no place, no name and no id.

    A source keeps its place and its weight, for tokens refer to sources by their place.
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
    if chosen := _chosen(record):
        left = [document for document in chosen if document not in gone]
        kept["asked"] = record["asked"] | {"documents": left}
    return kept


def _chosen(record: dict[str, Any]) -> list[str]:
    """The documents that a question was limited to, if it was."""
    return record.get("asked", {}).get("documents") or []
