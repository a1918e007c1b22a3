"""Tables, recovered from the lines in which documents keep them: `header: value; header: value`.

`app.documents.readers.tables` writes those lines. A long record takes several, each of which
repeats its first value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.documents.readers.tables import WIDTH

_YES, _NO = {"yes", "y", "true", "x"}, {"no", "n", "false", "-", ""}
_FIELD = re.compile(r"([^;]{1,200}?): (.*)", re.DOTALL)
_NUMBER = re.compile(
    r"[€£$]?\s?(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?(?!0\d)\d+(?:\.\d+)?)\s?(%|[^\W\d]{0,3})"
)


@dataclass(frozen=True)
class Table:
    """Rows of cells, "" where a row has none; `spans` are their character offsets in the text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spans: tuple[tuple[int, int], ...]

    @cached_property
    def numeric(self) -> frozenset[int]:
        """The columns that hold numbers of one unit, or without any, and nothing else."""
        found = set()
        for column in range(len(self.columns)):
            read = [_NUMBER.fullmatch(row[column]) for row in self.rows if row[column]]
            if len({number and number[2] for number in read} | {None}) == 2 and all(read):
                found.add(column)
        return frozenset(found)

    @cached_property
    def flags(self) -> frozenset[int]:
        """The columns that say yes or no."""
        cells = {
            column: {row[column].lower() for row in self.rows}
            for column in range(len(self.columns))
        }
        return frozenset(c for c, held in cells.items() if held & _YES and held <= _YES | _NO)

    def yes(self, column: int) -> tuple[str, ...]:
        """The cells of a column that say yes."""
        return tuple(sorted({row[column] for row in self.rows if row[column].lower() in _YES}))

    def label(self, row: int) -> str:
        """What a row is called: its first cell, and its second unless that is a number."""
        named = [0, 1] if 1 not in self.numeric else [0]
        return ", ".join(filter(None, (self.rows[row][column] for column in named)))


def number(cell: str) -> float | None:
    """The number in a cell, with a unit or a currency or without."""
    found = _NUMBER.fullmatch(cell)
    return float(found[1].replace(",", "")) if found else None


def tables_in(text: str) -> list[Table]:
    """Every table of two rows and two columns at least."""
    found = []
    for run in _runs(text):
        names = tuple(dict.fromkeys(name for record, _ in run for name in record))
        if len(run) > 1 and len(names) > 1:
            rows = tuple(tuple(record.get(name, "") for name in names) for record, _ in run)
            found.append(Table(names, rows, tuple(span for _, span in run)))
    return found


Record = tuple[dict[str, str], tuple[int, int]]


def _runs(text: str) -> Iterator[Sequence[Record]]:
    """Records on successive lines, whose first fields the ones before them have, too."""
    run: list[Record] = []
    known: set[str] = set()
    before = ""
    start = 0
    for line in text.split("\n"):
        span = start, start + len(line.rstrip())
        start += len(line) + 1
        record = _record(line.strip())
        if next(iter(record), None) not in known:
            if run:
                yield run
            run, known = [], set()
        if run and _goes_on(before, run[-1][0], record):
            last, (begun, _) = run[-1]
            run[-1] = last | record, (begun, span[1])
        elif run or len(record) > 1:
            run.append((record, span))
        if run:
            known |= record.keys()
        before = line
    if run:
        yield run


def _goes_on(before: str, last: dict[str, str], record: dict[str, str]) -> bool:
    """Whether a line is a further one of the record of the line before, which was full."""
    first, *others = record
    item = f"{others[0]}: {record[others[0]]}" if others else ""
    full = len(before) + len(item) > WIDTH
    return full and record.keys() & last.keys() == {first} and record[first] == last[first]


def _record(line: str) -> dict[str, str]:
    """The fields of a line; none if it is no record."""
    fields: dict[str, str] = {}
    name = ""
    for piece in line.split("; "):
        if found := _FIELD.fullmatch(piece):
            name = found[1]
            fields[name] = found[2]
        elif name:
            fields[name] += f"; {piece}"
        else:
            return {}
    return fields
