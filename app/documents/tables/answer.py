"""Answers a question about a table: computed exactly from its cells, or not at all.

Rows that sum up the others are left out of every count, sum and extreme, and the answer says so.
"""

# ruff: noqa: S608, the query is shown, and never run

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from app.documents.hits import DocumentHit
from app.documents.tables.columns import TWO_WAYS, Holds, number
from app.documents.tables.question import Condition, Reading, TableQuery
from app.documents.tables.records import Shelf, Table
from app.documents.tables.wording import Operation
from dragon.retrieval.relevance import HIGHEST

_TABLED = 3  # documents, at most, whose tables are queried
_SHOWN = 8
_LEAST_PLACES = 2  # of a mean
_THOUSAND = 1000
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_EXTREMES = {Operation.MOST: "highest", Operation.LEAST: "lowest"}
_FUNCTIONS = {
    Operation.SUM: "SUM", Operation.MEAN: "AVG", Operation.MOST: "MAX", Operation.LEAST: "MIN",
}  # fmt: skip


@dataclass(frozen=True)
class TableAnswer:
    """One line of text, the `query` that it comes from, and the offsets of its first row."""

    text: str
    query: str
    start: int
    end: int


def nearest_answer(
    question: str, shelf: Shelf, best: Sequence[DocumentHit], said: DocumentHit | None
) -> DocumentHit | None:
    """The answer of the nearest table that has one, from the row that was `said` if need be."""
    nearest: dict[str, DocumentHit] = {}
    for hit in best:
        nearest.setdefault(hit.document, hit)
    tabled = 0
    for hit in nearest.values():
        tables = shelf.of(hit.document, hit.kind) if tabled < _TABLED else ()
        tabled += bool(tables)
        for each in tables:
            row = None
            if said is not None and said.document == hit.document:
                row = each.row_at(said.start)
            found = answer(question, each, hit.title, row)
            if found is None:
                continue
            line = replace(hit, text=found.text, query=found.query, start=found.start)
            return replace(line, end=found.end, score=1.0, relevance=HIGHEST)
    return None


def answer(question: str, table: Table, title: str, said: int | None = None) -> TableAnswer | None:
    """A table's answer, or why there is none; None if the question may not be about the table.

    A question that names no row may be about the one that was `said` before.
    """
    asked = Reading(question, table, title, said).query()
    if asked is None or (len(table.columns) == 1 and asked.operation is not Operation.COUNT):
        return None  # items of a list are only counted
    over = asked.operation in _FUNCTIONS or asked.operation is Operation.COUNT
    left_out = table.totals if over else frozenset()
    rows = [row for row in range(len(table.rows)) if row not in left_out]
    compared = [each.column for each in asked.conditions if each.relation != "IN"]
    needed = [*compared, *(c for c in asked.columns if asked.operation in _FUNCTIONS)]
    sql = _statement(asked, table, title)
    for column in needed:
        held = table.held[column]
        if held.holds in (Holds.WORDS, Holds.UNDECIDED) or (held.either and column in compared):
            return TableAnswer(_undecided(table, column), sql, *table.spans[0])
    rows = [row for row in rows if all(_meets(table, row, each) for each in asked.conditions)]
    if not rows:
        return None
    if asked.group is not None:
        return _grouped(asked, asked.group, table, rows, sql)
    if asked.operation in _EXTREMES:
        numbers = table.held[asked.columns[0]].values
        values = {row: value for row in rows if (value := numbers[row]) is not None}
        best = max if asked.operation is Operation.MOST else min
        rows = [row for row in values if values[row] == best(values.values())]
    text = _worded(asked, table, rows, title)
    if text and left_out:
        summed = asked.columns if asked.operation is Operation.SUM else ()
        cells = (", ".join([table.label(n), *(table.rows[n][c] for c in summed)]) for n in left_out)
        text += f" (without the row {'; '.join(cells)})"
    return TableAnswer(text, sql, *table.spans[rows[0]]) if text else None


def _meets(table: Table, row: int, condition: Condition) -> bool:
    if condition.relation == "IN":
        return table.rows[row][condition.column] in condition.values
    held, said = table.held[condition.column], condition.values[0]
    if held.dated:
        day = held.days[row]
        return day is not None and _COMPARED[condition.relation](day.isoformat(), said)
    value, bound = held.values[row], number(said)
    return value is not None and bound is not None and _COMPARED[condition.relation](value, bound)


def _worded(asked: TableQuery, table: Table, rows: list[int], title: str) -> str:
    """The answer in words; empty if it would be longer than anyone reads."""
    named = sum(len(condition.values) for condition in asked.conditions)
    match asked.operation:
        case Operation.CELLS if len(rows) <= _SHOWN:
            return "; ".join(_cells(asked, table, row) for row in rows)
        case Operation.ROWS if len(rows) == 1 or (len(rows) == 2 and named > 1):
            return " | ".join(_whole(table, row) for row in rows)
        case Operation.ROWS:
            return f"{len(rows)} rows: {_labels(table, rows)}"
        case Operation.COUNT:
            return _counted(asked, table, rows, title)
        case Operation.MOST | Operation.LEAST if 0 < len(rows) <= _SHOWN:
            which = _EXTREMES[asked.operation]
            if len(rows) == 1:
                return f"{_whole(table, rows[0])} (the {which} {table.columns[asked.columns[0]]})"
            return f"{'; '.join(_cells(asked, table, row) for row in rows)} (the {which})"
        case Operation.SUM | Operation.MEAN:
            return _summed(asked, table, rows)
    return ""


def _summed(asked: TableQuery, table: Table, rows: list[int]) -> str:
    column = asked.columns[0]
    held = table.held[column]
    values = [value for row in rows if (value := held.values[row]) is not None]
    if len(rows) == 1 or not values:
        return _cells(asked, table, rows[0])
    total, how, places = sum(values, Decimal(0)), "in all", held.decimals
    if asked.operation is Operation.MEAN:
        total, how = total / len(values), "on average"
        places = max(_LEAST_PLACES, held.decimals)
    # An ambiguous number is written alike below a thousand and with all its decimals.
    if held.either and (abs(total) >= _THOUSAND or total != round(total, places)):
        return _undecided(table, column)
    shown = (table.rows[row] for row in rows[:_SHOWN])
    parts = "; ".join(f"{row[0]}: {row[column] or 'not given'}" for row in shown)
    more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{table.columns[column]} {how}: {held.shown(total, places)} ({parts}{more})"


def _grouped(
    asked: TableQuery, group: int, table: Table, rows: list[int], sql: str
) -> TableAnswer | None:
    """The cell of a group's column whose rows have the highest or the lowest sum."""
    held, sums = table.held[asked.columns[0]], defaultdict[str, Decimal](Decimal)
    for row in rows:
        if (value := held.values[row]) is not None and (cell := table.rows[row][group]):
            sums[cell] += value
    if len(sums) < 2:
        return None
    best = (max if asked.operation is Operation.MOST else min)(sums.values())
    cells = [cell for cell, value in sums.items() if value == best]
    span = table.spans[next(row for row in rows if table.rows[row][group] == cells[0])]
    if held.either:
        return TableAnswer(_undecided(table, asked.columns[0]), sql, *span)
    total = f"{table.columns[asked.columns[0]]} in all: {held.shown(best, held.decimals)}"
    which = f"the {_EXTREMES[asked.operation]} of {len(sums)} by {table.columns[group]}"
    return TableAnswer(f"{'; '.join(cells)}, {total} ({which})", sql, *span)


def _undecided(table: Table, column: int) -> str:
    held = table.held[column]
    why = held.why or (TWO_WAYS if held.either else "it does not hold numbers alone")
    return f"No answer can be computed from the column {table.columns[column]}: {why}."


def _counted(asked: TableQuery, table: Table, rows: list[int], title: str) -> str:
    text = f"{len(rows)} row{'s' * (len(rows) != 1)} of {title}"
    if len(rows) < len(table.rows):
        text += f": {_labels(table, rows)}"
    for column in asked.columns:
        different = {table.rows[row][column] for row in rows}
        if 1 < len(different) < len(rows):
            text += f" ({len(different)} different: {table.columns[column]})"
    return text


def _labels(table: Table, rows: list[int]) -> str:
    more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return "; ".join(table.label(row) for row in rows[:_SHOWN]) + more


def _cells(asked: TableQuery, table: Table, row: int) -> str:
    shown = [column for column in asked.columns if column] or list(asked.columns)
    named = [table.rows[row][column] for column in table.named if column not in shown]
    cells = (f"{table.columns[c]}: {table.rows[row][c] or 'not given'}" for c in shown)
    return ", ".join((*filter(None, named), *cells))


def _whole(table: Table, row: int) -> str:
    pairs = zip(table.columns, table.rows[row], strict=True)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


# The query, as it is shown.


def _statement(asked: TableQuery, table: Table, title: str) -> str:
    names, source = [_quoted(table.columns[column]) for column in asked.columns], _quoted(title)
    match asked.operation:
        case Operation.COUNT:
            what = "COUNT(*)"
        case Operation.SUM | Operation.MEAN:
            what = f"{_FUNCTIONS[asked.operation]}({names[0]})"
        case Operation.CELLS | Operation.MOST | Operation.LEAST:
            what = ", ".join(dict.fromkeys([_quoted(table.columns[0]), *names]))
        case _:
            what = "*"
    terms = [_term(condition, table) for condition in asked.conditions]
    if asked.operation in _EXTREMES and asked.group is None:
        within = f" WHERE {' AND '.join(terms)}" if terms else ""
        best = f"{_FUNCTIONS[asked.operation]}({names[0]})"
        terms.append(f"{names[0]} = (SELECT {best} FROM {source}{within})")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    if asked.group is not None:
        by, total = _quoted(table.columns[asked.group]), f"SUM({names[0]})"
        order = "DESC" if asked.operation is Operation.MOST else "ASC"
        what = f"SELECT {by}, {total} FROM {source}{where}"
        return f"{what} GROUP BY {by} ORDER BY {total} {order}"
    return f"SELECT {what} FROM {source}{where}"


def _term(condition: Condition, table: Table) -> str:
    name = _quoted(table.columns[condition.column])
    if condition.relation != "IN":
        (said,), bound = condition.values, number(condition.values[0])
        return f"{name} {condition.relation} {repr(said) if bound is None else bound}"
    values = ", ".join("'" + value.replace("'", "''") + "'" for value in condition.values)
    return f"{name} IN ({values})" if len(condition.values) > 1 else f"{name} = {values}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
