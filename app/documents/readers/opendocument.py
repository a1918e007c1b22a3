"""ODT and ODP: headings, paragraphs, lists, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.documents.readers.archive import Archive
from app.documents.readers.common import one_line, tidy
from app.documents.readers.grid import Cell, table_lines

_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_DRAW, _OFFICE, _PRESENTATION, _STYLE, _TABLE, _TEXT = (
    _NAMES % name for name in ("drawing", "office", "presentation", "style", "table", "text")
)
_LEFT_OUT = {
    f"{_OFFICE}annotation",
    f"{_TEXT}tracked-changes",
    f"{_TEXT}table-of-content",
    f"{_TEXT}note-citation",
}
# What stands in a paragraph and has paragraphs of its own.
_APART = {f"{_TEXT}note", f"{_DRAW}frame", f"{_DRAW}custom-shape"}
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_REPEATED = {"date-time", "footer", "header", "page-number"}
_MOST_COLUMNS = 1000


def odt_pages(archive: Archive) -> list[str]:
    """The document's text; notes stand behind their paragraph, headers and footers come last."""
    blocks = list(_blocks(archive.xml("content.xml").find(f"{_OFFICE}body")))
    if "styles.xml" in archive.names:
        for part in archive.xml("styles.xml").iter(f"{_STYLE}header", f"{_STYLE}footer"):
            blocks += [block for block in _blocks(part) if block not in blocks]
    return [tidy("\n\n".join(blocks))]


def odp_slides(archive: Archive) -> list[str]:
    """The text of each slide in order, its title as heading; one without any is empty."""
    return [_slide(each) for each in archive.xml("content.xml").iter(f"{_DRAW}page")]


def _slide(page: Any) -> str:
    titles, others, notes = [], [], []
    for child in page:
        if child.tag == f"{_PRESENTATION}notes":
            notes += [f"Notes: {block}" for block in _blocks(child)]
        elif (kind := child.get(f"{_PRESENTATION}class")) == "title":
            titles += [f"# {one_line(block)}" for block in _blocks(child)]
        elif kind not in _REPEATED:
            others += list(_blocks(child))
    return tidy("\n\n".join((*titles, *others, *notes)))


def _blocks(element: Any) -> Iterator[str]:
    """Paragraphs, lists and tables in order, those in frames too."""
    for child in [] if element is None else element:
        if child.tag in {f"{_TEXT}p", f"{_TEXT}h"}:
            text = "".join(_inline(child)).strip()
            level = child.get(f"{_TEXT}outline-level", "1") if child.tag == f"{_TEXT}h" else ""
            if text and level.isdecimal():
                yield f"{'#' * min(int(level), 6)} {one_line(text)}"
            elif text:
                yield text
            yield from _apart(child)
        elif child.tag == f"{_TEXT}list":
            if items := "\n".join(_items(child)):
                yield items
        elif child.tag == f"{_TABLE}table":
            rows = [_cells(row) for row in child.iter(f"{_TABLE}table-row")]
            yield "\n".join(table_lines(rows))
        elif child.tag not in _LEFT_OUT:
            yield from _blocks(child)


def _apart(paragraph: Any) -> Iterator[str]:
    """The paragraphs of what stands in another."""
    for child in paragraph:
        yield from _blocks(child) if child.tag in _APART else _apart(child)


def _items(items: Any) -> Iterator[str]:
    """A line an item; those of lists within it follow it."""
    for item in items:
        for block in _blocks(item):
            yield block if block.startswith("- ") else f"- {one_line(block)}"


def _cells(row: Any) -> list[Cell]:
    """The cells of a row but for those that another reaches over."""
    cells: list[Cell] = []
    for cell in row.iterchildren(f"{_TABLE}table-cell"):
        count = repetitions(cell, f"{_TABLE}number-columns-repeated")
        down, across = (
            repetitions(cell, f"{_TABLE}number-{each}-spanned") for each in ("rows", "columns")
        )
        text = " ".join(_blocks(cell))
        cells += [Cell(text, down, across)] * min(count, _MOST_COLUMNS - len(cells))
    return cells


def repetitions(element: Any, attribute: str) -> int:
    """How often a cell or row says to be there; Python converts no more than some digits."""
    count = element.get(attribute, "1")
    return int(count[:10]) if count.isdecimal() else 1


def _inline(element: Any) -> Iterator[str]:
    """The text of a paragraph, without what stands apart from it."""
    yield element.text or ""
    for child in element:
        if child.tag in _SPACES:
            yield _SPACES[child.tag]
        elif child.tag not in _APART and child.tag not in _LEFT_OUT:
            yield from _inline(child)
        yield child.tail or ""
