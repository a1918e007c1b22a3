"""What the columns of a table are for, and what its rows are, by their names and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from app.documents.tables import wording
from app.documents.tables.columns import Holds
from app.documents.tables.naming import named_by, parts_of
from app.documents.tables.records import Table


def is_named(table: Table, word: str) -> bool:
    """Whether a word is one of a column's name."""
    return any(named_by(word, name) for name in table.columns)


def begun_with(
    said: Sequence[str], possible: Iterable[int], table: Table
) -> tuple[int | None, int]:
    """The one column that most of the first words name, if any, and how many do."""
    begun: dict[int, list[int]] = {0: []}
    for column in possible:
        named = takewhile(lambda word: named_by(word, table.columns[column]), said)  # noqa: B023
        begun.setdefault(sum(1 for _ in named), []).append(column)
    most = max(begun)
    return (begun[most][0], most) if most and len(begun[most]) == 1 else (None, 0)


def dates(table: Table) -> list[int]:
    """The columns of dates, even those whose order of day and month is undecided."""
    return [n for n, c in enumerate(table.held) if c.holds is Holds.DATES or c.dated]


def when(table: Table, asked: Sequence[str]) -> Sequence[int]:
    """The columns that say when a row was: named in the question, or by nothing but a date."""
    names = {column: table.columns[column] for column in dates(table)}
    said = [c for c, name in names.items() if any(named_by(w, name) for w in asked)]
    return said or [c for c, name in names.items() if not c or set(parts_of(name)) <= wording.WHEN]


def money(table: Table, *, spent: bool) -> list[int]:
    """The columns of money; of money that is `spent`, not of prices of which it may be one."""
    named = {c: set(parts_of(table.columns[c])) for c in sorted(table.numeric)}
    if spent:
        amounts = (c for c, each in named.items() if each & wording.AMOUNTS)
        return [c for c in amounts if not named[c] & wording.APIECE]
    return [c for c, each in named.items() if each & wording.MONEY]


def quantities(table: Table) -> list[int]:
    """The columns that say how many there are of what a row is."""
    named = {c: set(parts_of(table.columns[c])) - {"in", "on"} for c in sorted(table.numeric)}
    return [c for c, each in named.items() if each and each <= wording.QUANTITIES]


def row_nouns(table: Table) -> set[str]:
    """What its rows may be called besides, such as payments where they have a day and an amount."""
    names = [set(parts_of(name)) for name in table.columns]
    there = set[str]().union(*names)
    found = {noun for nouns, marks in wording.ROW_NOUNS if there & marks for noun in nouns}
    if dates(table):
        found |= wording.PAYMENTS if money(table, spent=True) else set()
        clients = (c for c, each in enumerate(names) if each & wording.CUSTOMERS)
        found |= {"order"} if any(not table.is_a_key(column) for column in clients) else set()
    return found
