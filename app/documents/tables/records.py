"""Tables, recovered from the lines in which documents keep them: `header: value; header: value`.

`app.documents.readers.grid` writes those lines. A long record takes several, each of which
repeats its first value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from app.documents.readers.grid import WIDTH
from app.documents.readers.sniff import FileKind
from app.documents.tables.columns import Column, Holds, columns_of
from app.documents.tables.naming import parts_of, spellings
from dragon.retrieval.lexical import stem

_YES, _NO = {"yes", "y", "true", "x"}, {"no", "n", "false", "-", ""}
_FIELD = re.compile(r"([^;]{1,200}?): (.*)", re.DOTALL)
# Names of a row that sums up the others; in other languages its sum tells, see `totals`.
_TOTAL = re.compile(
    r"(?:grand |sub)?total\w{0,7}|sums?|(?:zwischen|gesamt)?summen?|gesamt|insgesamt|somme|suma"
    r"|averages?|mean|durchschnitt|mittelwert|moyenne|media",
    re.IGNORECASE,
)
_MARK = r"[ \t]{0,8}(?:[-*+•–]|\d{1,3}[.)])[ \t]+"
_LISTED = re.compile(
    rf"^(?:#{{1,6}} )?(?P<name>(?!{_MARK})[^\n]{{2,100}})\n\n?"
    rf"(?P<items>(?:{_MARK}[^\n]+(?:\n|\Z)){{2,}})",
    re.MULTILINE,
)
_ITEM = re.compile(rf"^{_MARK}([^\n]+)", re.MULTILINE)
_IN_LINE = re.compile(
    r"(?P<name>[^\n.:;]{3,100}): (?P<items>(?:[^\n,.:;]{1,60}, )+[^\n,.:;]{1,60}"
    r",? (?:and|or|und|oder|et|ou|y|e|o) [^\n,.:;]{1,60})\.?$",
    re.MULTILINE,
)
_KEPT = 16  # documents whose tables are in memory
_LEAST_SUMMED = 3  # rows above one that is taken for their sum, whatever it is called


@dataclass(frozen=True)
class Table:
    """Rows of cells, "" where a row has none; `spans` are their character offsets in the text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spans: tuple[tuple[int, int], ...]

    @cached_property
    def held(self) -> tuple[Column, ...]:
        """What each column holds."""
        return columns_of(list(zip(*self.rows, strict=True)))

    @cached_property
    def numeric(self) -> frozenset[int]:
        """The columns of numbers, computed with or not."""
        kinds = Holds.NUMBERS, Holds.UNDECIDED
        numbers = (n for n, c in enumerate(self.held) if c.holds in kinds and not c.dated)
        return frozenset(numbers)

    def is_a_key(self, column: int) -> bool:
        """Whether each row has a value of its own in the column."""
        cells = [same(row[column]) for row in self.rows]
        return all(cells) and len(set(cells)) == len(cells)

    @cached_property
    def totals(self) -> frozenset[int]:
        """The rows that sum up those above them: they are named so, or hold exactly their sums."""
        found: set[int] = set()
        above: list[int] = []
        for at, row in enumerate(self.rows):
            words = [
                cell
                for cell, column in zip(row, self.held, strict=True)
                if cell and not (column.values and column.values[at] is not None)
            ]
            named = len(words) == 1 and _TOTAL.fullmatch(words[0].strip(" :*")) is not None
            last = at == len(self.rows) - 1
            unnamed = len(words) < 2 and last and len(above) >= (_LEAST_SUMMED if words else 2)
            if above and (named or (unnamed and self._sums_up(at, above))):
                found.add(at)
            else:
                above.append(at)
        return frozenset(found)

    def _sums_up(self, row: int, above: Sequence[int]) -> bool:
        """Whether its numbers, not all of them 0, are the sums of those above."""
        numbers = (column.values for column in self.held if column.holds is Holds.NUMBERS)
        sums = [
            (values[row], sum(value for each in above if (value := values[each]) is not None))
            for values in numbers
            if values[row] is not None
        ]
        return any(value for value, _ in sums) and all(value == total for value, total in sums)

    @cached_property
    def spelt(self) -> Mapping[str, Mapping[tuple[str, ...], Mapping[int, Collection[str]]]]:
        """The words in which cells are named, by the stem of the first: of which column's cells."""
        found: dict[str, dict[tuple[str, ...], dict[int, set[str]]]] = {}
        stems = {stem(part) for name in self.columns for part in parts_of(name)}
        for column, name in enumerate(self.columns):
            rows = (row for n, row in enumerate(self.rows) if n not in self.totals)
            for cell in {row[column] for row in rows if not column or column not in self.numeric}:
                for spelt in spellings(cell, name, stems):
                    named = found.setdefault(stem(spelt[0]), {}).setdefault(spelt, {})
                    named.setdefault(column, set()).add(cell)
        return found

    @cached_property
    def flags(self) -> frozenset[int]:
        """The columns that say yes or no."""
        said = [{cell.lower() for cell in column} for column in zip(*self.rows, strict=True)]
        return frozenset(n for n, each in enumerate(said) if each & _YES and each <= _YES | _NO)

    def yes(self, column: int) -> tuple[str, ...]:
        """The cells of a column that say yes."""
        return tuple(sorted({row[column] for row in self.rows if row[column].lower() in _YES}))

    @property
    def named(self) -> Sequence[int]:
        """The columns that name a row: the first, and the second unless it holds numbers."""
        return range(min(len(self.columns), 1 + (1 not in self.numeric)))

    def row_at(self, offset: int) -> int | None:
        """The row at an offset in the text, if any."""
        spans = enumerate(self.spans)
        return next((row for row, (start, end) in spans if start <= offset < end), None)

    def label(self, row: int) -> str:
        """The name of a row."""
        return ", ".join(filter(None, (self.rows[row][column] for column in self.named)))


def same(cell: str) -> str:
    """What cells that say the same have in common: "Bob" and "bob"."""
    return " ".join(cell.casefold().split())


def tables_in(text: str) -> list[Table]:
    """Every table of two rows and two columns at least, and lists, which are tables of one."""
    found = []
    for run in _runs(text):
        names = tuple(dict.fromkeys(name for record, _ in run for name in record))
        if len(run) > 1 and len(names) > 1:
            rows = tuple(tuple(record.get(name, "") for name in names) for record, _ in run)
            found.append(Table(names, rows, tuple(span for _, span in run)))
    taken = {span for each in found for span in each.spans}
    return [*(each for each in _lists(text) if taken.isdisjoint(each.spans)), *found]


def _lists(text: str) -> Iterator[Table]:
    """Items below a line that names them, or behind a colon in it."""
    for found in _LISTED.finditer(text):
        items = list(_ITEM.finditer(text, found.start("items"), found.end()))
        rows = tuple((item[1].strip(),) for item in items)
        yield Table((found["name"].strip(" :"),), rows, tuple(item.span() for item in items))
    for found in _IN_LINE.finditer(text):
        cells = re.split(r", |,? (?:and|or|und|oder|et|ou|y|e|o) ", found["items"])
        spans = (found.span(),) * len(cells)
        yield Table((found["name"],), tuple((cell,) for cell in cells), spans)


Record = tuple[dict[str, str], tuple[int, int]]


def _runs(text: str) -> Iterator[Sequence[Record]]:
    """Runs of records on successive lines, which share the first field or half of their fields."""
    run: list[Record] = []
    known: set[str] = set()
    before = ""
    start = 0
    for line in text.split("\n"):
        span = start, start + len(line.rstrip())
        start += len(line) + 1
        record = _record(line.strip())
        first, shared = next(iter(record), ""), len(record.keys() & known)
        if not (first and first in known) and (not record or 2 * shared < len(record)):
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
    """Whether a line continues the record of the line before, which was full."""
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
        elif fields or not piece:
            return {}
        else:
            fields[""] = piece  # of a column without a name
    return fields if fields.keys() != {""} else {}


class Shelf:
    """A cache of the tables of documents under `files`. A document never changes."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self._tables = lru_cache(_KEPT)(
            lambda document: tables_in((files / document / "text").read_text("utf-8"))
        )

    def of(self, document: str, kind: str) -> Sequence[Table]:
        """A document's tables; none if it is gone, or of a kind that has none. It reads a file."""
        if kind and FileKind(kind).has_tables:
            with suppress(FileNotFoundError):
                return self._tables(document)
        return ()

    def forget(self) -> None:
        """Drop all tables, since a document is deleted."""
        self._tables.cache_clear()
