"""Answers what a question asks of a table, by a query that runs over its rows in SQLite."""

# ruff: noqa: S608, the query is shown as it runs: names and values are quoted, not bound

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from app.documents.tables.question import Condition, Operation, TableQuery, read
from app.documents.tables.records import Table, number

_SHOWN = 8
_AGGREGATES = {Operation.SUM: "SUM", Operation.MEAN: "AVG"}


@dataclass(frozen=True)
class TableAnswer:
    """One line of text, the `query` that it comes from, and the offsets of its first row."""

    text: str
    query: str
    start: int
    end: int


def answer(question: str, table: Table, title: str) -> TableAnswer | None:
    """The answer that a table gives to a question; None if it is not sure to have one."""
    asked = read(question, table, title)
    if asked is None:
        return None
    sql = _statement(asked, table, title)
    with closing(_loaded(table, title)) as connection:
        rows = [row - 1 for (row,) in connection.execute(_rows(asked, table, title))]
        if not rows:
            return None
        value = None
        if asked.operation in _AGGREGATES:
            ((value,),) = connection.execute(sql).fetchall()
    text = _worded(asked, table, rows, value, title)
    return TableAnswer(text, sql, *table.spans[rows[0]]) if text else None


def _worded(
    asked: TableQuery, table: Table, rows: list[int], value: float | None, title: str
) -> str:
    """The answer in words; empty where it would be longer than anyone reads."""
    match asked.operation:
        case Operation.CELLS if len(rows) <= _SHOWN:
            return "; ".join(_cells(asked, table, row) for row in rows)
        case Operation.ROWS if len(rows) == 1 or (len(rows) == 2 and _of_rows(asked)):
            return " | ".join(_whole(table, row) for row in rows)
        case Operation.ROWS:
            return f"{len(rows)} rows: {_labels(table, rows)}"
        case Operation.COUNT:
            return _counted(asked, table, rows, title)
        case Operation.MOST | Operation.LEAST if len(rows) <= _SHOWN:
            which = "highest" if asked.operation is Operation.MOST else "lowest"
            if len(rows) == 1:
                return f"{_whole(table, rows[0])} (the {which} {table.columns[asked.columns[0]]})"
            return f"{'; '.join(_cells(asked, table, row) for row in rows)} (the {which})"
        case Operation.SUM | Operation.MEAN if value is not None:
            column = asked.columns[0]
            if len(rows) == 1:
                return _cells(asked, table, rows[0])
            how = "in all" if asked.operation is Operation.SUM else "on average"
            shown = (table.rows[row] for row in rows[:_SHOWN])
            parts = "; ".join(f"{row[0]}: {row[column] or 'not given'}" for row in shown)
            more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
            return f"{table.columns[column]} {how}: {_plain(value)} ({parts}{more})"
    return ""


def _plain(value: float) -> str:
    """A number of at most two decimals."""
    return f"{value:,.2f}".removesuffix("0").removesuffix(".0")


def _of_rows(asked: TableQuery) -> bool:
    """Whether each of its rows is named."""
    return sum(len(condition.values) for condition in asked.conditions) > 1


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
    shown = [c for c in asked.columns if c > 1 or (c == 1 and c in table.numeric)]
    shown = shown or list(asked.columns)
    cells = (f"{table.columns[c]}: {table.rows[row][c] or 'not given'}" for c in shown)
    return ", ".join((table.label(row), *cells))


def _whole(table: Table, row: int) -> str:
    pairs = zip(table.columns, table.rows[row], strict=True)
    return "; ".join(f"{name}: {cell}" for name, cell in pairs if cell)


# The query.


def _statement(asked: TableQuery, table: Table, title: str) -> str:
    """The query as it is shown; an aggregate is run as it stands."""
    names = [_quoted(table.columns[column]) for column in asked.columns]
    match asked.operation:
        case Operation.COUNT:
            what = "COUNT(*)"
        case Operation.SUM | Operation.MEAN:
            what = f"{_AGGREGATES[asked.operation]}({names[0]})"
        case Operation.CELLS | Operation.MOST | Operation.LEAST:
            what = ", ".join(dict.fromkeys([_quoted(table.columns[0]), *names]))
        case _:
            what = "*"
    return f"SELECT {what} FROM {_quoted(title)}{_where(asked, table, title)}"


def _rows(asked: TableQuery, table: Table, title: str) -> str:
    return f"SELECT rowid FROM {_quoted(title)}{_where(asked, table, title)} ORDER BY rowid"


def _where(asked: TableQuery, table: Table, title: str) -> str:
    terms = [_term(condition, table) for condition in asked.conditions]
    if asked.operation in (Operation.MOST, Operation.LEAST):
        name = _quoted(table.columns[asked.columns[0]])
        best = "MAX" if asked.operation is Operation.MOST else "MIN"
        within = f" WHERE {' AND '.join(terms)}" if terms else ""
        terms.append(f"{name} = (SELECT {best}({name}) FROM {_quoted(title)}{within})")
    return f" WHERE {' AND '.join(terms)}" if terms else ""


def _term(condition: Condition, table: Table) -> str:
    name = _quoted(table.columns[condition.column])
    if condition.relation != "IN":
        return f"{name} {condition.relation} {number(condition.values[0])!r}"
    values = ", ".join("'" + value.replace("'", "''") + "'" for value in condition.values)
    return f"{name} IN ({values})" if len(condition.values) > 1 else f"{name} = {values}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _loaded(table: Table, title: str) -> sqlite3.Connection:
    """The table in a database of its own, in memory; numbers are numbers."""
    connection = sqlite3.connect(":memory:")
    columns = range(len(table.columns))
    kinds = ("REAL" if column in table.numeric else "TEXT" for column in columns)
    named = (f"{_quoted(n)} {kind}" for n, kind in zip(table.columns, kinds, strict=True))
    connection.execute(f"CREATE TABLE {_quoted(title)} ({', '.join(named)})")
    marks = ", ".join("?" * len(table.columns))
    connection.executemany(
        f"INSERT INTO {_quoted(title)} VALUES ({marks})",
        (
            [number(row[c]) if c in table.numeric else row[c] or None for c in columns]
            for row in table.rows
        ),
    )
    return connection
