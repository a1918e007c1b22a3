"""PPTX: each slide with its title, lists, tables and notes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from app.documents.readers.archive import PPTX_SLIDES, Archive
from app.documents.readers.charts import CHART, chart_lines
from app.documents.readers.common import one_line, tidy
from app.documents.readers.grid import Cell, table_lines

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TITLES, _LISTS = {"title", "ctrTitle"}, {"body", "obj"}
_REPEATED = {"dt", "ftr", "hdr", "sldNum", "sldImg"}


def pptx_slides(archive: Archive) -> list[str]:
    """The text of each slide in order; one without any is empty."""
    targets = _targets(archive, PPTX_SLIDES)
    slides = archive.xml(PPTX_SLIDES).iter(f"{_P}sldId")
    return [_slide(archive, targets.get(each.get(f"{_R}id", ""), "")) for each in slides]


def _targets(archive: Archive, part: str) -> dict[str, str]:
    """The names of the parts that a part refers to, by id and by type."""
    folder, name = posixpath.split(part)
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.names:
        return {}
    found = {}
    for each in archive.xml(relations):
        target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))[1:]
        found[each.get("Id", "")] = found[posixpath.basename(each.get("Type", ""))] = target
    return found


def _slide(archive: Archive, name: str) -> str:
    targets = _targets(archive, name)
    blocks = list(_blocks(archive, archive.xml(name), targets))
    blocks.sort(key=lambda block: not block.startswith("# "))
    if notes := targets.get("notesSlide"):
        said = [_text(each, listed=False) for each in _shapes(archive.xml(notes), {"body"})]
        blocks += [f"Notes: {each}" for each in said if each]
    return tidy("\n\n".join(blocks))


def _blocks(archive: Archive, slide: Any, targets: dict[str, str]) -> Iterator[str]:
    """Text boxes, tables and diagrams, those in groups too."""
    for shape in slide.iter(f"{_P}sp", f"{_P}graphicFrame"):
        if any(each.tag == _ALTERNATIVE for each in shape.iterancestors()):
            continue
        kind = _placed(shape)
        if shape.tag == f"{_P}sp" and kind not in _REPEATED:
            text = _text(shape, listed=kind in _LISTS)
            yield f"# {one_line(text)}" if text and kind in _TITLES else text
        for table in shape.iter(f"{_A}tbl"):
            rows = [
                [_cell(cell) for cell in row.iter(f"{_A}tc") if not _covered(cell)]
                for row in table.iter(f"{_A}tr")
            ]
            yield "\n".join(table_lines(rows))
        for chart in shape.iter(CHART):
            if data := targets.get(chart.get(f"{_R}id", "")):
                yield "\n".join(chart_lines(archive.xml(data)))
        for diagram in shape.iter(f"{_DIAGRAM}relIds"):
            if data := targets.get(diagram.get(f"{_R}dm", "")):
                yield "\n".join(_lines(archive.xml(data), listed=True))


def _shapes(root: Any, kinds: set[str]) -> Iterator[Any]:
    return (shape for shape in root.iter(f"{_P}sp") if _placed(shape) in kinds)


def _placed(shape: Any) -> str:
    """The kind of placeholder that a shape is; "" for one that somebody drew."""
    placeholder = shape.find(f"*/{_P}nvPr/{_P}ph")
    return "" if placeholder is None else placeholder.get("type", "obj")


def _text(shape: Any, *, listed: bool) -> str:
    return "\n".join(_lines(shape, listed=listed))


def _cell(cell: Any) -> Cell:
    down, across = (int(cell.get(name, "1")) for name in ("rowSpan", "gridSpan"))
    return Cell(" ".join(_lines(cell, listed=False)), down, across)


def _covered(cell: Any) -> bool:
    """Whether another cell reaches over it."""
    return "1" in (cell.get("hMerge"), cell.get("vMerge"))


def _lines(element: Any, *, listed: bool) -> Iterator[str]:
    """The paragraphs; as items of a list where they have bullets, as `listed` ones have."""
    for paragraph in element.iter(f"{_A}p"):
        runs = paragraph.iter(f"{_A}t", f"{_A}br")
        text = one_line("".join(" " if run.tag == f"{_A}br" else run.text or "" for run in runs))
        marks = paragraph.find(f"{_A}pPr")
        bullets = {child.tag for child in marks} if marks is not None else set()
        item = bullets & {f"{_A}buChar", f"{_A}buAutoNum"} or (
            listed and f"{_A}buNone" not in bullets
        )
        if text:
            yield f"- {text}" if item else text
