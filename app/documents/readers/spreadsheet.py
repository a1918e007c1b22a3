"""XLSX and ODS: the tables of each sheet, as records."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from itertools import groupby

from app.documents.readers.archive import Archive
from app.documents.readers.common import UnreadableError, damaged, one_line
from app.documents.readers.opendocument import repetitions
from app.documents.readers.tables import table_lines
from dragon.localizable import localizable

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_VALUE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
_MOST_REPEATED = 50_000

Cell = str | float | bool | datetime.date | datetime.time | datetime.timedelta


def sheets_text(data: bytes, kind: str) -> str:
    """The sheets in order, each under its name; what a formula gave, not the formula.

    A blank row ends a table; a line by itself above one stays a line. Raises UnreadableError.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    if kind == ".ods":
        _refuse_repetition(Archive(data, kind))
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [(name, book.get_sheet_by_name(name).to_python()) for name in book.sheet_names]
    except CalamineError:
        raise UnreadableError(damaged(kind)) from None
    return "\n\n".join(
        "\n\n".join((f"# {one_line(name)}", *tables))
        for name, rows in sheets
        if (tables := list(_tables(rows)))
    )


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
        raise UnreadableError(
            localizable(
                "file.rows",
                "The file repeats rows more than {count} times. Save it again without them.",
                count=_MOST_REPEATED,
            )
        )


def _tables(sheet: Sequence[Sequence[Cell]]) -> Iterator[str]:
    rows = ([_shown(cell) for cell in row] for row in sheet)
    for filled, run in groupby(rows, any):
        table = list(run)
        if not filled:
            continue
        while table and sum(map(bool, table[0])) == 1:
            yield "".join(table.pop(0))
        if table:
            yield "\n".join(table_lines(table))


def _shown(cell: Cell) -> str:
    """A cell as it is read: whole numbers without a point, a midnight as its day."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell.is_integer() else repr(round(cell, 10))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return one_line(str(cell))
