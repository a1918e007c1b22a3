"""DOCX: paragraphs, tables, notes, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.documents.readers.archive import DOCX_TEXT, Archive
from app.documents.readers.common import tidy
from app.documents.readers.grid import Cell, table_lines

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
            yield "\n".join(table_lines(_table(child)))
        elif child.tag != _ALTERNATIVE:
            yield from _blocks(child)


def _table(table: Any) -> list[list[Cell]]:
    """Rows without those of tables within it; a cell that goes on below reaches over those rows."""
    rows: list[list[Cell]] = []
    above: dict[int, tuple[int, int]] = {}  # by column: where the cell stands that goes on
    for row in table.iterchildren(f"{_W}tr"):
        cells: list[Cell] = []
        column = 0
        for cell in row.iter(f"{_W}tc"):
            if next(cell.iterancestors(f"{_W}tr")) is not row:
                continue
            across = int(_value(cell, "gridSpan") or 1)
            merged = cell.find(f"{_W}tcPr/{_W}vMerge")
            if merged is not None and merged.get(f"{_W}val") != "restart" and column in above:
                at, n = above[column]
                rows[at][n] = replace(rows[at][n], down=rows[at][n].down + 1)
            else:
                if merged is not None:
                    above[column] = len(rows), len(cells)
                cells.append(Cell(" ".join(_blocks(cell)), across=across))
            column += across
        rows.append(cells)
    return rows


def _value(cell: Any, name: str) -> str:
    found = cell.find(f"{_W}tcPr/{_W}{name}")
    return "" if found is None else str(found.get(f"{_W}val", ""))


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
