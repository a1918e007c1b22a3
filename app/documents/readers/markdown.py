"""The text of Markdown files as it stands, but for tables: these become a line a row."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.documents.readers.tables import table_lines

_ROW = re.compile(r"\s*\|.*\|\s*")
_RULE = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*")
_BORDER = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"\s*(?:```|~~~)")


def markdown_text(text: str) -> str:
    """The text, each row of a table with its columns' names."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    at, code = 0, False
    while at < len(lines):
        code ^= bool(_FENCE.match(lines[at]))
        end = at if code else _end_of_table(lines, at)
        if end > at:
            rows = [_cells(line) for line in lines[at:end] if not _RULE.fullmatch(line)]
            yield from table_lines(rows)
            at = end
        else:
            yield lines[at]
            at += 1


def _end_of_table(lines: list[str], start: int) -> int:
    """Where the table that begins at a line ends; the same line if none begins there."""
    if not (_ROW.fullmatch(lines[start]) and start + 1 < len(lines)):
        return start
    if not _RULE.fullmatch(lines[start + 1]):
        return start
    end = start + 2
    while end < len(lines) and _ROW.fullmatch(lines[end]):
        end += 1
    return end


def _cells(line: str) -> list[str]:
    parts = _BORDER.split(line.strip())[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]
