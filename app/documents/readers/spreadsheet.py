"""XLSX and ODS: the tables of each sheet as records, with numbers as they are shown (7.5 %)."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from babel.numbers import parse_pattern

from app.documents.readers.archive import RELATIONS, XLSX_BOOK, Archive
from app.documents.readers.common import FileText, UnreadableError, damaged, one_line, unreadable
from app.documents.readers.grid import Cell as Placed
from app.documents.readers.grid import table_lines
from app.documents.readers.office import OFFICE, TABLE, odf_cells, odf_text, repetitions
from dragon.localizable import localizable

_MOST_REPEATED, _MOST_BLANK = 50_000, 1000  # rows
_STYLES = "xl/styles.xml"
# Formats with a number and no code in the file, ECMA-376 part 1, 18.8.30.
_BUILT_IN = {
    "2": "0.00", "3": "#,##0", "4": "#,##0.00", "9": "0%", "10": "0.00%",
    "37": "#,##0;(#,##0)", "38": "#,##0;(#,##0)", "39": "#,##0.00;(#,##0.00)",
    "40": "#,##0.00;(#,##0.00)", "44": '"$"#,##0.00',
}  # fmt: skip
_CURRENCY = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
_UNSEEN = re.compile(r"\[[^\]]*\]|[_*].")
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
# Characters that babel interprets even in a literal, and their stand-ins.
_HIDDEN = str.maketrans("%;'", "\ue025\ue03b\ue027")
_BACK = {new: old for old, new in _HIDDEN.items()}
# Dates, fractions, powers, scaling by thousands and literals: they are left out here.
_OTHER = re.compile(r"[dyhs@/\"\\]|E[+-]|[#0?],(?![#0?])")
_CONDITIONAL = re.compile(r"\[[<>=]")
_UNRESULTED = re.compile(
    rb"</(?:\w+:)?f>\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)

Formats = Mapping[tuple[int, int], str]
"""By row and column, the codes of the cells whose format says more than a number."""

Merged = tuple[tuple[int, int], tuple[int, int]]
Cell = str | float | bool | datetime.date | datetime.time | datetime.timedelta


def xlsx_text(data: bytes) -> FileText:
    """The sheets in order, each under its name, and a note if formulas have no results.

    Formulas are shown by their results. A blank row ends a table; a line by itself above one stays
    a line. Raises UnreadableError.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    archive = Archive(data, ".xlsx")
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [book.get_sheet_by_name(name) for name in book.sheet_names]
        cells = [sheet.to_python(skip_empty_area=False) for sheet in sheets]
    except CalamineError:
        raise UnreadableError(damaged(".xlsx")) from None
    targets = archive.related(XLSX_BOOK)
    named = archive.xml(XLSX_BOOK).iter("{*}sheet")
    names = [targets.get(each.get(f"{RELATIONS}id"), "") for each in named]
    parts = [archive.read(name) if name in archive.names else b"" for name in names]
    codes = _codes(archive) if _STYLES in archive.names else {}
    formats = [_formats(part, codes) for part in parts]
    formats += [{}] * (len(sheets) - len(formats))
    texts = []
    for sheet, rows, formatted in zip(sheets, cells, formats, strict=False):
        placed = _placed(rows, sheet.merged_cell_ranges or (), formatted)
        texts += _sheet(sheet.name, placed)
    lacking = sum(len(_UNRESULTED.findall(part)) for part in parts)
    note = localizable(
        "file.note.formulas",
        "{count} formula cells have no result in the file and were left out. Open it in a "
        "spreadsheet program and save it again.",
        count=lacking,
    )
    return FileText(["\n\n".join(texts)], note if lacking else None)


def ods_text(archive: Archive) -> FileText:
    """The same for an ODS file, whose cells have values besides the text that they show."""
    texts, repeated = [], 0
    for table in archive.xml("content.xml").iter(f"{TABLE}table"):
        rows: list[list[Placed]] = []
        for row in table.iter(f"{TABLE}table-row"):
            cells = odf_cells(row, _value)
            count = repetitions(row, f"{TABLE}number-rows-repeated")
            repeated += (count - 1) * bool(cells)
            if repeated > _MOST_REPEATED:
                raise unreadable(
                    "file.rows",
                    "The file repeats rows more than {count} times. Save it again without them.",
                    count=_MOST_REPEATED,
                )
            rows += [cells] * (count if cells else min(count, _MOST_BLANK))
        texts += _sheet(table.get(f"{TABLE}name", ""), rows)
    return FileText(["\n\n".join(texts)])


def _value(cell: Any) -> str:
    """The value of a cell, which is the same in all locales, else the text that it shows."""
    said: dict[str, str] = {name.removeprefix(OFFICE): value for name, value in cell.items()}
    with suppress(KeyError, ValueError):
        match said.get("value-type"):
            case "percentage":
                return f"{_shown(100 * float(said['value']), None)}%"
            case "float" | "currency":
                return f"{_shown(float(said['value']), None)} {said.get('currency', '')}".strip()
            case "boolean":
                return _shown(said["boolean-value"] == "true", None)
            case "date":
                return said["date-value"].removesuffix("T00:00:00").replace("T", " ")
    return odf_text(cell)


def _codes(archive: Archive) -> dict[str, str]:
    """The codes of percentages, currencies and thousands, by the style of a cell."""
    root = archive.xml(_STYLES)
    own = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iter("{*}numFmt")}
    found = {}
    for n, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        code = own.get(style.get("numFmtId"), _BUILT_IN.get(style.get("numFmtId"), ""))
        plain = _UNSEEN.sub("", _LITERAL.sub("", code))
        if re.search(r"[#0]", plain) and not _OTHER.search(plain) and not _CONDITIONAL.search(code):
            found[str(n)] = code
    return found


def _formats(sheet: bytes, codes: Mapping[str, str]) -> Formats:
    found = {}
    styled = re.compile(rb'<(?:\w+:)?c (?=[^>]*\br="([A-Z]{1,3})(\d{1,7})")[^>]*\bs="(\d+)"')
    for column, row, style in styled.findall(sheet):
        if code := codes.get(style.decode()):
            number = 0
            for letter in column:
                number = number * 26 + letter - 64
            found[int(row) - 1, number - 1] = code
    return found


def _placed(
    sheet: Sequence[Sequence[Cell]], merged: Iterable[Merged], codes: Formats
) -> Iterator[list[Placed]]:
    spans = {start: (end[0] - start[0] + 1, end[1] - start[1] + 1) for start, end in merged}
    covered = {
        (row, column)
        for (top, left), (down, across) in spans.items()
        for row in range(top, top + down)
        for column in range(left, left + across)
    } - spans.keys()
    for row, cells in enumerate(sheet):
        yield [
            Placed(_shown(cell, codes.get((row, column))), *spans.get((row, column), (1, 1)))
            for column, cell in enumerate(cells)
            if (row, column) not in covered
        ]


def _sheet(name: str, rows: Iterable[Sequence[Placed]]) -> list[str]:
    """The text of a sheet under its name; none if it is blank."""
    texts: list[str] = []
    table: list[Sequence[Placed]] = []
    above = 0  # rows below that a cell spans
    for row in (*rows, None):
        filled = [cell for cell in row or () if cell.text]
        if row is None or not (filled or above):
            if lines := table_lines(table):
                texts.append("\n".join(lines))
            table = []
        elif not table and len(filled) == 1:
            texts.append(filled[0].text)
        else:
            above = max((above - 1, *(cell.down - 1 for cell in row), 0))
            table.append(row)
    return ["\n\n".join((f"# {one_line(name)}", *texts))] if texts else []


def _shown(cell: Cell, code: str | None) -> str:
    """A cell as it is read: whole numbers without a point, a midnight as its day."""
    if code and isinstance(cell, float):
        return _formatted(cell, code)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        rounded = round(cell, 10)
        return f"{rounded:.0f}" if rounded.is_integer() else repr(rounded)
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return one_line(str(cell))


def _formatted(value: float, code: str) -> str:
    """A number as a format shows it, with . for decimals."""

    def literal(found: re.Match[str]) -> str:
        text = (found[1] or found[2] or "").translate(_HIDDEN)
        return f"'{text}'" if text else ""

    # For babel: the formats above and below 0, and literals between '.
    code = _LITERAL.sub(literal, _CURRENCY.sub(r'"\1"', code))
    pattern = ";".join(_UNSEEN.sub("", code).split(";")[:2]).replace("?", "#")
    with localcontext(rounding=ROUND_HALF_UP):
        text: str = parse_pattern(pattern).apply(Decimal(repr(value)), "en")
    return text.translate(_BACK).strip()
