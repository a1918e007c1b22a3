"""Which rows of a table a question is about: by the cells, days and amounts that it names."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

from app.documents.tables import roles, wording
from app.documents.tables.naming import (
    Words,
    has_other_forms,
    has_word,
    named_by,
    parts_of,
    scattered,
    title_in,
    together,
)
from app.documents.tables.periods import Period, period_in
from app.documents.tables.records import Table
from dragon.retrieval.lexical import content_words, stem, words
from dragon.retrieval.names import month

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Condition:
    """`relation` is an operator of SQL: cells of `column` are one of `values`, or above one.

    Or they are above those of the column `other` in the same row, or are none of `values`. What
    they are above is an ISO date or a plain number.
    """

    column: int
    relation: str
    values: tuple[str, ...]
    other: int | None = None


# Days.


def days_named(question: str, table: Table) -> tuple[Sequence[Condition], str] | None:
    """The days that a question is about, as conditions, and the question without them.

    None if it is about days that no column tells apart.
    """
    found = period_in(question)
    if found is None:
        return (), question
    rest = f"{question[: found.start]} , {question[found.end :]}"
    conditions: dict[Sequence[bool], Sequence[Condition]] = {}
    for column in roles.when(table, content_words(rest)):
        days = table.held[column].days
        if any(days) and (within := found.days({day for day in days if day})):
            first, end = within
            met = tuple(
                day is not None and (not first or first <= day) and (not end or day < end)
                for day in days
            )
            bounds = ((">=", first), ("<", end))
            conditions[met] = [
                Condition(column, relation, (day.isoformat(),)) for relation, day in bounds if day
            ]
    name = _name_in(question, found, table)
    if len(conditions) == 1 and not (name and found.loose):  # of the columns, one must be meant
        return next(iter(conditions.values())), rest
    unsure = conditions and not re.match(r"\W*when\b", question, re.IGNORECASE)
    if found.first != found.last or (name and (unsure or not found.loose)):
        return None
    return (), question


def _name_in(question: str, period: Period, table: Table) -> bool:
    """Whether a month is the name of somebody, too: "the salary of May"."""
    name = words(question[period.start : period.end])[-1]
    if not month(name):
        return False
    begun = (each for spelt, each in table.spelt.get(stem(name), {}).items() if spelt[0] == name)
    columns = {column for named in begun for column in named if not table.held[column].dated}
    return any(
        not all(month(cell) for cell in {row[column] for row in table.rows} if cell)
        for column in columns
    )


def dated(column: int, table: Table) -> Condition:
    """The rows that have a date in a column of dates, and not "open", or nothing."""
    others = {row[column] for row in table.rows if not any(map(str.isdigit, row[column]))}
    return Condition(column, "NOT IN", tuple(sorted(others | {""})))


# Cells.


def cells_named(
    asked: Words, table: Table, title: Sequence[str], preferred: Collection[int] = ()
) -> Iterator[Condition]:
    """Cells that the question names, the longest first; one column each."""
    tokens = words(asked.text)
    named: dict[tuple[str, ...], Mapping[int, Collection[str]]] = {}
    for begun in {stem(token) for token in tokens}:
        named.update(table.spelt.get(begun, {}))
    free = [True] * len(tokens)
    titled = title_in(tokens, title)
    chosen: dict[int, set[str]] = {}
    longest_first = sorted(named, key=lambda each: (-len(each), each))
    # Cells named in their own words go before cells named in other forms.
    formed = [each for each in longest_first if has_other_forms(each, named[each])]
    for spelt, places_of in (
        *((each, together) for each in longest_first),
        *((each, scattered) for each in formed),
    ):
        while (places := places_of(spelt, tokens, free)) and asked.names(spelt):
            if any(set(places) < set(said) for said in titled):
                break  # "all household expenses" are not those of the category "Household"
            possible = [c for c in named[spelt] if c in preferred] or list(named[spelt])
            column, asked_of = possible[0], set(tokens[max(0, places[0] - 1) : places[0]])
            if len(possible) > 1 and not _same_rows(named[spelt], table):
                said = [c for c in possible if asked_of & set(parts_of(table.columns[c])[-1:])]
                asked.unsure |= len(said) != 1  # Lyon is where a trip is from, or where it is to
                column = (said or possible)[0]
            chosen.setdefault(column, set()).update(named[spelt][column])
            for at in places:
                free[at] = False
                asked.cells.add(tokens[at])
                asked.take([tokens[at]])
    for column, cells in chosen.items():
        yield Condition(column, "IN", tuple(sorted(cells)))


def _same_rows(named: Mapping[int, Collection[str]], table: Table) -> bool:
    """Whether the cells of each column are those of the same rows."""
    found = [[row[column] in cells for row in table.rows] for column, cells in named.items()]
    return all(rows == found[0] for rows in found)


def meets(table: Table, row: int, condition: Condition) -> bool:
    """Whether a row meets a condition; none meets a comparison with undecided numbers."""
    if condition.relation not in COMPARED:
        return (table.rows[row][condition.column] in condition.values) == (
            condition.relation == "IN"
        )
    held, compare = table.held[condition.column], COMPARED[condition.relation]
    value = held.values[row] if held.values else None
    if condition.other is not None:
        others = table.held[condition.other].values
        bound = others[row] if others else None
    elif held.dated:
        day = held.days[row] if held.values else None
        return day is not None and compare(day.isoformat(), condition.values[0])
    else:
        bound = Decimal(condition.values[0])
    return value is not None and bound is not None and compare(value, bound)


def rows_with(conditions: Sequence[Condition], table: Table) -> list[int]:
    """The rows that meet all conditions."""
    return [n for n in range(len(table.rows)) if all(meets(table, n, each) for each in conditions)]


def narrowed(conditions: list[Condition], left: Iterable[str], asked: Words, table: Table) -> None:
    """Keep of the rows that conditions leave those whose cells have the words left over.

    "The brass bell" is "Bell, brass" and not "Bell, steel".
    """
    for word in left if conditions else ():
        rows = [table.rows[n] for n in rows_with(conditions, table)]
        having = {
            column: cells
            for column in range(len(table.columns))
            if column not in table.numeric
            and (cells := {row[column] for row in rows if has_word(row[column], word)})
        }
        if len(having) == 1:
            ((column, cells),) = having.items()
            conditions[:] = [e for e in conditions if (e.column, e.relation) != (column, "IN")]
            conditions.append(Condition(column, "IN", tuple(sorted(cells))))
            asked.take([word])


# Columns that are compared with each other.


def columns_compared(question: str, table: Table) -> tuple[Condition | None, str]:
    """A comparison of two columns, "below their minimum stock", and the question without it."""
    held, names = table.held, table.columns
    figures = [  # not "over the years"
        column
        for column, name in enumerate(names)
        if column in roles.dates(table)
        or (column in table.numeric and not set(parts_of(name)) <= wording.WHEN)
    ]
    for found in wording.AGAINST.finditer(question):
        before, behind = question[: found.start()], question[found.end() :]
        limits = wording.LIMITS & set(words(behind))
        possible = [c for c in figures if limits or not wording.LIMITS & set(parts_of(names[c]))]
        other, length = roles.begun_with(words(behind), possible, table)
        if other is None:
            continue
        alike = [
            column
            for column in figures
            if column != other
            and (held[column].holds, held[column].unit) == (held[other].holds, held[other].unit)
        ]
        plain = set(parts_of(names[other])) - wording.LIMITS - wording.UNITS
        spent = roles.money(table, spent=True)
        for columns in (  # named before or behind "more", or of the same name, or of what was spent
            [c for c in alike if any(named_by(w, names[c]) for w in words(found["what"] or ""))],
            [c for c in alike if any(named_by(w, names[c]) for w in content_words(before))],
            [c for c in alike if plain.intersection(parts_of(names[c]))],
            [c for c in alike if c in spent],
        ):
            if len(columns) == 1:
                relation = wording.relation(found["how"] or found["than"])
                return Condition(
                    columns[0], relation, (), other
                ), f"{before} , {rest_of(behind, length)}"
            if columns:
                break
    return None, question


def rest_of(text: str, count: int) -> str:
    """A text without its first words."""
    return re.sub(rf"\A(?:[\W_]*[^\W_]+){{{count}}}", "", text)


# Words that are no condition.


def says_more(text: str, conditions: Sequence[Condition], table: Table) -> bool:
    """Whether a question says what no query expresses: "all but food", "under Max", "food or May".

    Amounts, cells and columns may be named in such words: "Turin (without stock)". "Or" is
    between cells of one column.
    """
    text = wording.AMOUNT.sub(" , ", text)
    cells = [each.values for each in conditions]
    if pairs := [words(" ".join(found.groups(""))) for found in wording.OR.finditer(text)]:
        several = [{stem(w) for w in words(" ".join(each))} for each in cells if len(each) > 1]
        for pair in pairs:
            if len(pair) < 2 or not any({*map(stem, pair)} <= each for each in several):
                return True
    for name in (*chain.from_iterable(cells), *table.columns):
        if " " in name and name.casefold() in text.casefold():
            text = re.sub(re.escape(name), " , ", text, flags=re.IGNORECASE)
    return wording.BEYOND.search(text.lstrip()) is not None
