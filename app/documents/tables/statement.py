"""The query of a table as it is shown: in SQL, which is never run."""

# ruff: noqa: S608, see above

from __future__ import annotations

from app.documents.tables.columns import number
from app.documents.tables.conditions import Condition
from app.documents.tables.question import TableQuery
from app.documents.tables.records import Table
from app.documents.tables.wording import Operation

EXTREMES = {Operation.MOST: "highest", Operation.LEAST: "lowest"}
FUNCTIONS = {
    Operation.SUM: "SUM", Operation.MEAN: "AVG", Operation.MOST: "MAX", Operation.LEAST: "MIN",
}  # fmt: skip
_FORMS = {4: "%Y", 7: "%Y-%m"}


def statement(asked: TableQuery, table: Table, title: str) -> str:
    """The SQL of a query of the table with this title."""
    names, source = [_quoted(table.columns[column]) for column in asked.columns], _quoted(title)
    match asked.operation:
        case Operation.COUNT:
            what = f"COUNT(DISTINCT {names[0]})" if names and asked.group else "COUNT(*)"
        case Operation.CELLS | Operation.MOST | Operation.LEAST if asked.group is None:
            what = ", ".join(dict.fromkeys([_quoted(table.columns[0]), *names]))
        case Operation.ROWS:
            what = "*"
        case _:
            what = f"{FUNCTIONS[asked.operation]}({names[0]})"
    terms = [_term(condition, table) for condition in asked.conditions]
    if asked.operation in EXTREMES and asked.group is None:
        within = f" WHERE {' AND '.join(terms)}" if terms else ""
        best = f"{FUNCTIONS[asked.operation]}({names[0]})"
        terms.append(f"{names[0]} = (SELECT {best} FROM {source}{within})")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    if asked.group is None:
        return f"SELECT {what} FROM {source}{where}"
    by = _quoted(table.columns[asked.group.column])
    if asked.group.letters is not None:
        by = f"strftime('{_FORMS[asked.group.letters]}', {by})"
    rising = Operation.LEAST in (asked.best, asked.operation)
    order = f"{what} {'ASC' if rising else 'DESC'}" if asked.group.letters is None else by
    return f"SELECT {by}, {what} FROM {source}{where} GROUP BY {by} ORDER BY {order}"


def _term(condition: Condition, table: Table) -> str:
    name = _quoted(table.columns[condition.column])
    if condition.other is not None:
        return f"{name} {condition.relation} {_quoted(table.columns[condition.other])}"
    if condition.relation != "IN":
        (said,), bound = condition.values, number(condition.values[0])
        return f"{name} {condition.relation} {repr(said) if bound is None else bound}"
    values = ", ".join("'" + value.replace("'", "''") + "'" for value in condition.values)
    return f"{name} IN ({values})" if len(condition.values) > 1 else f"{name} = {values}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
