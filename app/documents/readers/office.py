"""Documents and slides of office programs (DOCX, PPTX, RTF, ODT, ODP) as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from app.documents.readers.archive import DOCX_TEXT, PPTX_SLIDES, RELATIONS, Archive
from app.documents.readers.common import UnreadableError, damaged, one_line, tidy
from app.documents.readers.grid import MOST_COLUMNS, Cell, table_lines

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_APART = re.compile(r"word/(?:footnotes|endnotes|header\d*|footer\d*)\.xml")
_CHART = re.compile(r"word/charts/chart\d*\.xml")
_COMMENTS, _STYLES = "word/comments.xml", "word/styles.xml"
_HEADING = re.compile(r"[Hh]eading ?([1-6])|(Title)")
_TITLES, _LISTS = {"title", "ctrTitle"}, {"body", "obj"}
_BULLETED = {f"{_A}buChar", f"{_A}buAutoNum"}
_REPEATED = {"dt", "ftr", "hdr", "sldNum", "sldImg"}
_COVERED = {("hMerge", "1"), ("vMerge", "1")}  # by a cell that spans it


def docx_pages(archive: Archive) -> list[str]:
    """The document's text; notes, headers, footers, comments and charts come last, no repeats."""
    headings = dict[str, str]()  # by id: names of styles are English, and ids in any language
    for style in archive.xml(_STYLES).iter(f"{_W}style") if _STYLES in archive.names else ():
        for name in style.iterfind(f"{_W}name"):
            headings[style.get(f"{_W}styleId", "")] = name.get(f"{_W}val", "")
    blocks = list(_blocks(archive.xml(DOCX_TEXT), headings))
    for part in sorted(filter(_APART.fullmatch, archive.names)):
        blocks += [block for block in _blocks(archive.xml(part), {}) if block not in blocks]
    if _COMMENTS in archive.names:
        blocks += [f"Comment: {block}" for block in _blocks(archive.xml(_COMMENTS), {})]
    for part in sorted(filter(_CHART.fullmatch, archive.names)):
        blocks.append("\n".join(_chart(archive.xml(part))))
    return [tidy("\n\n".join(blocks))]


def _blocks(element: Any, headings: Mapping[str, str]) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_W}p":
            style = child.find(f"{_W}pPr/{_W}pStyle")
            name = "" if style is None else style.get(f"{_W}val", "")
            heading = _HEADING.match(headings.get(name, name))
            if text := "".join(_runs(child)).strip():
                yield f"{'#' * int(heading[1] or 1)} {text}" if heading else text
            for box in child.iter(f"{_W}txbxContent"):
                if not any(each.tag == _ALTERNATIVE for each in box.iterancestors()):
                    yield from _blocks(box, headings)
        elif child.tag == f"{_W}tbl":
            yield "\n".join(table_lines(_table(child, headings)))
        elif child.tag != _ALTERNATIVE:
            yield from _blocks(child, headings)


def _table(table: Any, headings: Mapping[str, str]) -> list[list[Cell]]:
    """Rows without those of nested tables; a cell merged with those below spans their rows."""
    rows: list[list[Cell]] = []
    above: dict[int, tuple[int, int]] = {}  # by column: the place of a merged cell
    for row in table.iterchildren(f"{_W}tr"):
        cells: list[Cell] = []
        column = 0
        for cell in row.iter(f"{_W}tc"):
            if next(cell.iterancestors(f"{_W}tr")) is not row:
                continue
            span = cell.find(f"{_W}tcPr/{_W}gridSpan")
            across = 1 if span is None else int(span.get(f"{_W}val") or 1)
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


def pptx_slides(archive: Archive) -> list[str]:
    """The text of each slide in order; one without any is empty."""
    names, texts = archive.related(PPTX_SLIDES), []
    for each in archive.xml(PPTX_SLIDES).iter(f"{_P}sldId"):
        name = names.get(each.get(f"{RELATIONS}id", ""), "")
        targets = archive.related(name)
        blocks = list(_shown(archive, archive.xml(name), targets))
        blocks.sort(key=lambda block: not block.startswith("# "))
        if notes := targets.get("notesSlide"):
            bodies = (s for s in archive.xml(notes).iter(f"{_P}sp") if _placed(s) == "body")
            said = ("\n".join(_lines(each, listed=False)) for each in bodies)
            blocks += [f"Notes: {each}" for each in said if each]
        texts.append(tidy("\n\n".join(blocks)))
    return texts


def _shown(archive: Archive, slide: Any, targets: dict[str, str]) -> Iterator[str]:
    """Text boxes, tables and diagrams, those in groups too."""
    for shape in slide.iter(f"{_P}sp", f"{_P}graphicFrame"):
        if any(each.tag == _ALTERNATIVE for each in shape.iterancestors()):
            continue
        kind = _placed(shape)
        if shape.tag == f"{_P}sp" and kind not in _REPEATED:
            text = "\n".join(_lines(shape, listed=kind in _LISTS))
            yield f"# {one_line(text)}" if text and kind in _TITLES else text
        for table in shape.iter(f"{_A}tbl"):
            rows = [
                [_cell(cell) for cell in row.iter(f"{_A}tc") if not _COVERED & {*cell.items()}]
                for row in table.iter(f"{_A}tr")
            ]
            yield "\n".join(table_lines(rows))
        for chart in shape.iter(f"{_C}chart"):
            if data := targets.get(chart.get(f"{RELATIONS}id", "")):
                yield "\n".join(_chart(archive.xml(data)))
        for diagram in shape.iter(f"{_DIAGRAM}relIds"):
            if data := targets.get(diagram.get(f"{RELATIONS}dm", "")):
                yield "\n".join(_lines(archive.xml(data), listed=True))


def _placed(shape: Any) -> str:
    """The kind of placeholder that a shape is; "" for one that somebody drew."""
    placeholder = shape.find(f"*/{_P}nvPr/{_P}ph")
    return "" if placeholder is None else placeholder.get("type", "obj")


def _cell(cell: Any) -> Cell:
    down, across = (int(cell.get(name, "1")) for name in ("rowSpan", "gridSpan"))
    return Cell(" ".join(_lines(cell, listed=False)), down, across)


def _lines(element: Any, *, listed: bool) -> Iterator[str]:
    """The paragraphs; as list items if they have bullets, as `listed` ones do by default."""
    for paragraph in element.iter(f"{_A}p"):
        runs = paragraph.iter(f"{_A}t", f"{_A}br")
        text = one_line("".join(" " if run.tag == f"{_A}br" else run.text or "" for run in runs))
        bullets = {mark.tag for mark in paragraph.iterfind(f"{_A}pPr/*")}
        item = bullets & _BULLETED or (listed and f"{_A}buNone" not in bullets)
        if text:
            yield f"- {text}" if item else text


def _chart(root: Any) -> list[str]:
    """One line per category, with the value of each series."""
    names, table = [""], dict[str, list[str]]()
    for series in root.iter(f"{_C}ser"):
        title = " ".join(v.text or "" for v in series.iterfind(f"{_C}tx//{_C}v"))
        labels, values = _points(series, "cat", "xVal"), _points(series, "val", "yVal")
        for n, value in values.items():
            row = table.setdefault(labels.get(n, str(int(n) + 1)), [])
            row += [""] * (len(names) - 1 - len(row)) + [value]
        names.append(one_line(title) or f"series {len(names)}")
    return table_lines([["Category", *names[1:]], *([label, *row] for label, row in table.items())])


def _points(series: Any, *kinds: str) -> dict[str, str]:
    points = (p for kind in kinds for p in series.iterfind(f"{_C}{kind}//{_C}pt"))
    return {p.get("idx", "0"): one_line(p.findtext(f"{_C}v") or "") for p in points}


# RTF.


# Control words become characters that no text has, and pass through the library as such.
_CELL, _ROW = "\x1f", "\x1e"
_CELLS = re.compile(r"\\(?:nest)?cell(?![a-z]) ?")
_ROWS = re.compile(r"\\(?:trowd|row|nestrow)(?![a-z]) ?")
_OUTLINED = re.compile(r"\\outlinelevel([0-5])(?![0-9]) ?")
_BULLETS = re.compile(r"^[•·▪◦\uf0b7-]\t", re.MULTILINE)
_BARE_MARKS = re.compile(r"^#+ (?=#+ |$)", re.MULTILINE)
_PICTURES = re.compile(rb"(?:[0-9A-Fa-f]{2}[\r\n]{0,2}){200,}")


def rtf_text(data: bytes) -> str:
    """The text of a file; pictures, headers and footers are left out. Raises UnreadableError."""
    from striprtf.striprtf import rtf_to_text

    source = _PICTURES.sub(b"", data).decode("latin-1")
    source = source.replace("\\fldinst{", "\\fldinst {")  # else finding links takes quadratic time
    source = _ROWS.sub(f"{{{_ROW}}}", _CELLS.sub(f"{{{_CELL}}}", source))
    source = _OUTLINED.sub(lambda found: f"{{{'#' * (int(found[1]) + 1)} }}", source)
    try:
        text = rtf_to_text(source, errors="replace")
    except (ValueError, LookupError, TypeError):  # raised for malformed numbers
        raise UnreadableError(damaged(".rtf")) from None
    text = _BARE_MARKS.sub("", _BULLETS.sub("- ", text))
    pieces = [piece for piece in text.split(_ROW) if piece.strip()]
    blocks = (
        "\n".join(table_lines([row.split(_CELL) for row in run]) if in_table else run)
        for in_table, run in groupby(pieces, lambda piece: _CELL in piece)
    )
    return tidy("\n\n".join(blocks))


# OpenDocument.


_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_DRAW, OFFICE, _PRESENTATION, _STYLE, TABLE, _TEXT = (
    _NAMES % name for name in ("drawing", "office", "presentation", "style", "table", "text")
)
_LEFT_OUT = {
    f"{OFFICE}annotation",
    f"{_TEXT}tracked-changes",
    f"{_TEXT}table-of-content",
    f"{_TEXT}note-citation",
}
# Elements in a paragraph that have paragraphs of their own.
_FLOATING = {f"{_TEXT}note", f"{_DRAW}frame", f"{_DRAW}custom-shape"}
_SPACES = {f"{_TEXT}s": " ", f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_FIELDS = {"date-time", "footer", "header", "page-number"}


def odt_pages(archive: Archive) -> list[str]:
    """The document's text; notes follow their paragraph, headers and footers come last."""
    blocks = list(_odf_blocks(archive.xml("content.xml").find(f"{OFFICE}body")))
    if "styles.xml" in archive.names:
        for part in archive.xml("styles.xml").iter(f"{_STYLE}header", f"{_STYLE}footer"):
            blocks += [block for block in _odf_blocks(part) if block not in blocks]
    return [tidy("\n\n".join(blocks))]


def odp_slides(archive: Archive) -> list[str]:
    """The text of each slide in order, its title as heading; one without any is empty."""
    texts = []
    for page in archive.xml("content.xml").iter(f"{_DRAW}page"):
        titles, others, notes = [], [], []
        for child in page:
            if child.tag == f"{_PRESENTATION}notes":
                notes += [f"Notes: {block}" for block in _odf_blocks(child)]
            elif (kind := child.get(f"{_PRESENTATION}class")) == "title":
                titles += [f"# {one_line(block)}" for block in _odf_blocks(child)]
            elif kind not in _FIELDS:
                others += list(_odf_blocks(child))
        texts.append(tidy("\n\n".join((*titles, *others, *notes))))
    return texts


def _odf_blocks(element: Any) -> Iterator[str]:
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
            blocks = [block for item in child for block in _odf_blocks(item)]
            if blocks:
                yield "\n".join(b if b.startswith("- ") else f"- {one_line(b)}" for b in blocks)
        elif child.tag == f"{TABLE}table":
            rows = [odf_cells(row, odf_text) for row in child.iter(f"{TABLE}table-row")]
            yield "\n".join(table_lines(rows))
        elif child.tag not in _LEFT_OUT:
            yield from _odf_blocks(child)


def _apart(paragraph: Any) -> Iterator[str]:
    for child in paragraph:
        yield from _odf_blocks(child) if child.tag in _FLOATING else _apart(child)


def odf_text(cell: Any) -> str:
    """The text of a cell, on one line."""
    return " ".join(_odf_blocks(cell))


def odf_cells(row: Any, text_of: Callable[[Any], str]) -> list[Cell]:
    """The cells of a row without those that another spans, and without blank ones at its end."""
    cells: list[Cell] = []
    for cell in row.iterchildren(f"{TABLE}table-cell"):
        count = repetitions(cell, f"{TABLE}number-columns-repeated")
        down, across = (
            repetitions(cell, f"{TABLE}number-{each}-spanned") for each in ("rows", "columns")
        )
        cells += [Cell(text_of(cell), down, across)] * min(count, MOST_COLUMNS - len(cells))
    while cells and cells[-1] == Cell(""):
        cells.pop()
    return cells


def repetitions(element: Any, attribute: str) -> int:
    """How often a cell or row is repeated; cut to ten digits, since Python converts only some."""
    count = element.get(attribute, "1")
    return int(count[:10]) if count.isdecimal() else 1


def _inline(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag in _SPACES:
            yield _SPACES[child.tag]
        elif child.tag not in _FLOATING and child.tag not in _LEFT_OUT:
            yield from _inline(child)
        yield child.tail or ""
