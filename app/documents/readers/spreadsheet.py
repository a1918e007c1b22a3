"""XLSX and ODS: the tables of each sheet, as records."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Iterator, Sequence

from app.documents.readers.archive import Archive
from app.documents.readers.common import UnreadableError, damaged, one_line, unreadable
from app.documents.readers.grid import Cell as Placed
from app.documents.readers.grid import table_lines
from app.documents.readers.number_formats import Formats, formats_of, shown, unresulted
from app.documents.readers.opendocument import repetitions
from dragon.localizable import Localizable, localizable

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_VALUE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
_MOST_REPEATED = 50_000

Merged = tuple[tuple[int, int], tuple[int, int]]
Cell = str | float | bool | datetime.date | datetime.time | datetime.timedelta


def sheets_text(data: bytes, kind: str) -> tuple[str, Localizable | None]:
    """The sheets in order, each under its name, and a note if formulas have no results.

    What a formula gave stands there, not the formula. A blank row ends a table; a line by itself
    above one stays a line. Raises UnreadableError.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    archive = Archive(data, kind)
    if kind == ".ods":
        _refuse_repetition(archive)
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [book.get_sheet_by_name(name) for name in book.sheet_names]
        cells = [sheet.to_python(skip_empty_area=False) for sheet in sheets]
    except CalamineError:
        raise UnreadableError(damaged(kind)) from None
    formats = list(formats_of(archive)) if kind == ".xlsx" else []
    formats += [{}] * (len(sheets) - len(formats))
    texts = []
    for sheet, rows, codes in zip(sheets, cells, formats, strict=False):
        if tables := list(_tables(rows, sheet.merged_cell_ranges or (), codes)):
            texts.append("\n\n".join((f"# {one_line(sheet.name)}", *tables)))
    lacking = unresulted(archive) if kind == ".xlsx" else 0
    note = localizable(
        "file.note.formulas",
        "{count} formula cells have no result in the file and were left out. Open it in a "
        "spreadsheet program and save it again.",
        count=lacking,
    )
    return "\n\n".join(texts), note if lacking else None


def _refuse_repetition(archive: Archive) -> None:
    """Raises UnreadableError for rows that say to be there very often: a line makes millions.

    Those behind the last one with something in it cost nothing, and are what people have.
    """
    repeated = 0
    for table in archive.xml("content.xml").iter(f"{_TABLE}table"):
        behind = 0
        for row in table.iter(f"{_TABLE}table-row"):
            behind += repetitions(row, f"{_TABLE}number-rows-repeated") - 1
            if any(cell.get(_VALUE) or len(cell) for cell in row):
                repeated, behind = repeated + behind, 0
    if repeated > _MOST_REPEATED:
        raise unreadable(
            "file.rows",
            "The file repeats rows more than {count} times. Save it again without them.",
            count=_MOST_REPEATED,
        )


def _tables(
    sheet: Sequence[Sequence[Cell]], merged: Iterable[Merged], codes: Formats
) -> Iterator[str]:
    spans = {start: (end[0] - start[0] + 1, end[1] - start[1] + 1) for start, end in merged}
    covered = {
        (row, column)
        for (top, left), (down, across) in spans.items()
        for row in range(top, top + down)
        for column in range(left, left + across)
    } - spans.keys()
    rows = (
        [
            Placed(_shown(cell, codes.get((row, column))), *spans.get((row, column), (1, 1)))
            for column, cell in enumerate(cells)
            if (row, column) not in covered
        ]
        for row, cells in enumerate(sheet)
    )
    above = 0  # rows below that a cell reaches over
    table: list[list[Placed]] = []
    for row in rows:
        filled = [cell for cell in row if cell.text]
        if not filled and not above:
            yield from _written(table)
            table = []
            continue
        if not table and len(filled) == 1:
            yield filled[0].text
            continue
        above = max(above - 1, *(cell.down - 1 for cell in row), 0)
        table.append(row)
    yield from _written(table)


def _written(table: Sequence[Sequence[Placed]]) -> Iterator[str]:
    if lines := table_lines(table):
        yield "\n".join(lines)


def _shown(cell: Cell, code: str | None) -> str:
    """A cell as it is read: whole numbers without a point, a midnight as its day."""
    if code and isinstance(cell, float) and (text := shown(cell, code)):
        return text
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell.is_integer() else repr(round(cell, 10))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return one_line(str(cell))
