"""The parsed texts of documents, one file each."""

from __future__ import annotations

from pathlib import Path

_TITLE = 100  # characters, at most


def text_of(files: Path, document: str) -> str:
    """A document's text under `files`; "" while it is being read, or if it was deleted."""
    try:
        return (files / document / "text").read_text("utf-8")
    except FileNotFoundError:
        return ""


def title_of(files: Path, document: str) -> str:
    """A document's first line if it is no sentence, "" else. It reads the beginning of a file."""
    try:
        with (files / document / "text").open(encoding="utf-8") as file:
            first = file.read(4 * _TITLE).lstrip().partition("\n")[0].rstrip()
    except FileNotFoundError:
        return ""
    return first if len(first) <= _TITLE and not first.endswith((".", "!", "?", ";")) else ""
