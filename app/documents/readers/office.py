"""DOCX: paragraphs, tables, notes, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.documents.readers.archive import DOCX_TEXT, Archive
from app.documents.readers.charts import chart_lines
from app.documents.readers.common import tidy
from app.documents.readers.grid import Cell, table_lines

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_APART = re.compile(r"word/(?:footnotes|endnotes|header\d*|footer\d*)\.xml")
_CHART = re.compile(r"word/charts/chart\d*\.xml")
_COMMENTS, _STYLES = "word/comments.xml", "word/styles.xml"
_HEADING = re.compile(r"[Hh]eading ?([1-6])|(Title)")


def docx_text(archive: Archive) -> str:
    """The document's text; notes, headers, footers, comments and charts come last, no repeats."""
    headings = _headings(archive)
    blocks = list(_blocks(archive.xml(DOCX_TEXT), headings))
    for name in sorted(filter(_APART.fullmatch, archive.names)):
        blocks += [block for block in _blocks(archive.xml(name), {}) if block not in blocks]
    if _COMMENTS in archive.names:
        blocks += [f"Comment: {block}" for block in _blocks(archive.xml(_COMMENTS), {})]
    for name in sorted(filter(_CHART.fullmatch, archive.names)):
        blocks.append("\n".join(chart_lines(archive.xml(name))))
    return tidy("\n\n".join(blocks))


def _blocks(element: Any, headings: Mapping[str, str]) -> Iterator[str]:
    """Paragraphs and tables in order, those within text boxes and controls too."""
    for child in element:
        if child.tag == f"{_W}p":
            if text := _paragraph(child, headings):
                yield text
            for box in child.iter(f"{_W}txbxContent"):
                if not any(each.tag == _ALTERNATIVE for each in box.iterancestors()):
                    yield from _blocks(box, headings)
        elif child.tag == f"{_W}tbl":
            yield "\n".join(table_lines(_table(child, headings)))
        elif child.tag != _ALTERNATIVE:
            yield from _blocks(child, headings)


def _table(table: Any, headings: Mapping[str, str]) -> list[list[Cell]]:
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
                cells.append(Cell(" ".join(_blocks(cell, headings)), across=across))
            column += across
        rows.append(cells)
    return rows


def _value(cell: Any, name: str) -> str:
    found = cell.find(f"{_W}tcPr/{_W}{name}")
    return "" if found is None else str(found.get(f"{_W}val", ""))


def _paragraph(paragraph: Any, headings: Mapping[str, str]) -> str:
    text = "".join(_runs(paragraph)).strip()
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    name = "" if style is None else style.get(f"{_W}val", "")
    heading = _HEADING.match(headings.get(name, name))
    if not text or heading is None:
        return text
    return f"{'#' * int(heading[1] or 1)} {text}"


def _headings(archive: Archive) -> dict[str, str]:
    """The names of styles, which are English whatever language their ids are in."""
    if _STYLES not in archive.names:
        return {}
    names = {
        style.get(f"{_W}styleId", ""): style.find(f"{_W}name")
        for style in archive.xml(_STYLES).iter(f"{_W}style")
    }
    return {key: str(each.get(f"{_W}val", "")) for key, each in names.items() if each is not None}


def _runs(element: Any) -> Iterator[str]:
    """Runs of visible text; what was deleted or moved away is left out."""
    for child in element:
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in {f"{_W}tab", f"{_W}br", f"{_W}cr"}:
            yield "\t" if child.tag == f"{_W}tab" else "\n"
        elif child.tag == f"{_W}noBreakHyphen":
            yield "-"
        elif child.tag not in {f"{_W}txbxContent", f"{_W}pPr", f"{_W}moveFrom", _ALTERNATIVE}:
            yield from _runs(child)
