"""DOCX: paragraphs, tables, notes, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.documents.readers.archive import DOCX_TEXT, Archive
from app.documents.readers.common import tidy
from app.documents.readers.tables import table_lines

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_APART = re.compile(r"word/(?:footnotes|endnotes|header\d*|footer\d*)\.xml")
_HEADING = re.compile(r"[Hh]eading ?([1-6])|(Title)")


def docx_text(archive: Archive) -> str:
    """The document's text; notes, headers and footers come last, without repeats."""
    blocks = list(_blocks(archive.xml(DOCX_TEXT)))
    for name in sorted(filter(_APART.fullmatch, archive.names)):
        blocks += [block for block in _blocks(archive.xml(name)) if block not in blocks]
    return tidy("\n\n".join(blocks))


def _blocks(element: Any) -> Iterator[str]:
    """Paragraphs and tables in order, those within text boxes and controls too."""
    for child in element:
        if child.tag == f"{_W}p":
            if text := _paragraph(child):
                yield text
            for box in child.iter(f"{_W}txbxContent"):
                if not any(each.tag == _ALTERNATIVE for each in box.iterancestors()):
                    yield from _blocks(box)
        elif child.tag == f"{_W}tbl":
            rows = [[_cell(cell) for cell in row.iter(f"{_W}tc")] for row in child.iter(f"{_W}tr")]
            yield "\n".join(table_lines(rows))
        elif child.tag != _ALTERNATIVE:
            yield from _blocks(child)


def _cell(cell: Any) -> str:
    return " ".join(_blocks(cell))


def _paragraph(paragraph: Any) -> str:
    text = "".join(_runs(paragraph)).strip()
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    heading = _HEADING.match(style.get(f"{_W}val", "")) if style is not None else None
    if not text or heading is None:
        return text
    return f"{'#' * int(heading[1] or 1)} {text}"


def _runs(element: Any) -> Iterator[str]:
    """Runs of visible text; tracked deletions are left out."""
    for child in element:
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in {f"{_W}tab", f"{_W}br", f"{_W}cr"}:
            yield "\t" if child.tag == f"{_W}tab" else "\n"
        elif child.tag == f"{_W}noBreakHyphen":
            yield "-"
        elif child.tag not in {f"{_W}txbxContent", f"{_W}pPr", _ALTERNATIVE}:
            yield from _runs(child)
