"""Tables as a person sees them, whatever file they are in: one grid for all readers.

A cell that spans several rows or columns is repeated in each. The rows of a header become one
unique name per column, and lines above the header or below the last row stay lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mode

from app.documents.readers.common import one_line

WIDTH = 300
"""A longer record is split into lines that each repeat its first value.

So every line names its record, and is short enough to be retrieved.
"""

_LIKE_A_FIELD = re.compile(r"; (?=[^;]*: )")
_FIGURE = re.compile(
    r"[-+(]?[^\w\s]?\s?\d[\d.,'’\s]*(?:[%)]|\s?[^\W\d_]{1,3})?|\d{1,4}[-./]\d{1,2}[-./]\d{2,4}.*"
)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_FULL = 0.6  # of the fullest row's cells: a header has as many
_LONG_NAME = 25  # characters
_LOOKED_AT = 50  # rows, to tell what a table is like
MOST_COLUMNS = 1000


@dataclass(frozen=True)
class Cell:
    """A cell that spans so many rows and columns; `heads` if it is marked as a header."""

    text: str
    down: int = 1
    across: int = 1
    heads: bool = False


def table_lines(table: Iterable[Iterable[str | Cell]]) -> list[str]:
    """One line per row, each value after the name of its column if the table has names."""
    cells = [[_cell(each) for each in row] for row in table]
    rows, headers = _filled(cells), _marked(cells)
    kept = [n for n, row in enumerate(rows) if any(row)]
    headers = sum(n < headers for n in kept)
    rows = [rows[n] for n in kept]
    if not rows:
        return []
    first = _first(rows) if not headers else 0
    above, rows = rows[:first], rows[first:]
    last = len(rows)
    while last > headers + 2 and _is_a_note(rows[last - 1], rows):
        last -= 1
    rows, below = rows[:last], rows[last:]
    if not headers and names_columns(rows):
        headers = 1
    lines = [" ".join(_distinct(row)) for row in above]
    if 0 < headers < len(rows):
        columns = _columns(rows[:headers], max(map(len, rows)))
        found = (record(zip(columns, row, strict=False)) for row in rows[headers:])
    else:
        found = (record((None, cell) for cell in row) for row in rows)
    records = [line for each in found for line in each]
    notes = [" ".join(_distinct(row)) for row in below]
    return [*lines, *([""] if lines else []), *records, *([""] if notes else []), *notes]


def _cell(cell: str | Cell) -> Cell:
    if isinstance(cell, str):
        return Cell(one_line(cell))
    return Cell(one_line(cell.text), max(1, cell.down), max(1, cell.across), cell.heads)


def _filled(cells: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Rows of texts, that of a spanning cell in each of its places."""
    rows: list[list[str]] = []
    reaching: dict[int, tuple[int, str]] = {}  # by column: for how many rows more, and what
    for row in cells:
        if not reaching and all(cell.down == cell.across == 1 for cell in row):
            rows.append([cell.text for cell in row[:MOST_COLUMNS]])
            continue
        texts: list[str] = []
        waiting = iter(row)
        while len(texts) < MOST_COLUMNS:
            left, text = reaching.pop(len(texts), (0, ""))
            if left:
                if left > 1:
                    reaching[len(texts)] = left - 1, text
                texts.append(text)
            elif cell := next(waiting, None):
                for _ in range(min(cell.across, MOST_COLUMNS - len(texts))):
                    if cell.down > 1:
                        reaching[len(texts)] = cell.down - 1, cell.text
                    texts.append(cell.text)
            elif reaching and max(reaching) > len(texts):
                texts.append("")
            else:
                break
        rows.append(texts)
    return rows


def _marked(cells: Sequence[Sequence[Cell]]) -> int:
    """The number of header rows that the marks and spans of a table show."""
    count = next((n for n, row in enumerate(cells) if not all(c.heads for c in row)), 0)
    if count or len(cells) < 3:
        return count
    wide = [cell for cell in cells[0] if cell.across > 1]
    if wide and len(cells[0]) > 1 and sum(cell.across for cell in cells[1]) > len(cells[0]):
        # Names over names, unless the first row's are over single figures.
        below = (cell.text for cell in cells[1] if not _YEAR.fullmatch(cell.text))
        return 1 if any(map(_FIGURE.fullmatch, below)) else 2
    return max((cell.down for cell in cells[0]), default=1) if wide else 0


def _first(rows: Sequence[Sequence[str]]) -> int:
    """The first row that is as full as a header: those before it are lines of their own."""
    fullest = max(sum(map(bool, row)) for row in rows[:_LOOKED_AT])
    for at, row in enumerate(rows[:_LOOKED_AT]):
        count = sum(map(bool, row))
        labels = len(row) > 1 and row[0].endswith(":")
        if count >= _FULL * fullest and not (labels and at + 2 < len(rows)):
            return at
    return 0


def _is_a_note(row: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a last row is a sentence, and not a name without values."""
    usual = mode(sum(map(bool, each)) for each in rows[:_LOOKED_AT])
    said = _distinct(row)
    return usual > 2 and len(said) == 1 and len(said[0]) > _LONG_NAME and " " in said[0]


def _distinct(row: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, row)))


def names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns of those below it."""
    header, body = rows[0], rows[1 : 1 + _LOOKED_AT]
    if not body:
        return False
    given = [(n, cell) for n, cell in enumerate(header) if cell]
    if len(given) < 2:
        return False
    figures = [n for n, cell in given if _FIGURE.fullmatch(cell) and not cell[-1].isalpha()]
    if figures:
        years = all(_YEAR.fullmatch(header[n]) for n in figures)
        same = any(_YEAR.fullmatch(row[n]) for n in figures for row in body if n < len(row))
        return years and not same and 0 not in figures and len(set(figures)) < len(header)
    if len({cell for _, cell in given}) == len(given):
        return True
    below = ([row[n] for row in body if n < len(row) and row[n]] for n, _ in given)
    return any(column and all(map(_FIGURE.fullmatch, column)) for column in below)


def _columns(header: Sequence[Sequence[str]], width: int) -> list[str | None]:
    """One name per column, from all rows of the header; a repeated name is numbered."""
    names: list[str | None] = []
    for n in range(width):
        parts = _distinct([row[n] for row in header if n < len(row)])
        name = " ".join(parts) or (f"column {n + 1}" if n else "")
        taken = sum(each == name or (each or "").startswith(f"{name} (") for each in names)
        names.append(f"{name} ({taken + 1})" if name and name in names else name or None)
    return names


def record(pairs: Iterable[tuple[str | None, str]]) -> Iterator[str]:
    """The lines of a record: values after their names."""
    plain = ((name, _LIKE_A_FIELD.sub(", ", value)) for name, value in pairs if value)
    items = [f"{name}: {value}" if name else value for name, value in plain]
    if not items:
        return
    line = items[0]
    for item in items[1:]:
        if len(line) + len(item) > WIDTH and line != items[0]:
            yield line
            line = items[0]
        line += f"; {item}"
    yield line
