"""The parsed texts of documents, one file each."""

from __future__ import annotations

from pathlib import Path


def text_of(files: Path, document: str) -> str:
    """A document's text under `files`; "" while it is being read, or if it was deleted."""
    try:
        return (files / document / "text").read_text("utf-8")
    except FileNotFoundError:
        return ""
