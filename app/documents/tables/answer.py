"""Answers a question about a table: computed exactly from its cells, or not at all.

Rows that sum up the others are left out of every count, sum and extreme, and the answer says so.
"""

# ruff: noqa: S608, its SQL is shown and never run

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, takewhile

from app.documents.hits import DocumentHit
from app.documents.tables.columns import TWO_WAYS, Holds
from app.documents.tables.conditions import COMPARED, Condition, meets
from app.documents.tables.query import Group, TableQuery
from app.documents.tables.question import Reading
from app.documents.tables.records import Shelf, Table, same
from app.documents.tables.wording import FOLLOWING, Operation
from dragon.retrieval.relevance import HIGHEST

_TABLED = 3  # documents, at most, whose tables are queried
_SHOWN, _GROUPS = 8, 20
_LEAST_PLACES = 2  # of a mean
_THOUSAND = 1000
_WHAT = {
    Operation.SUM: "{} in all", Operation.MEAN: "{} on average",
    Operation.COUNT: "number of different values of {}",
    Operation.MOST: "highest {}", Operation.LEAST: "lowest {}",
}  # fmt: skip

_EXTREMES = {Operation.MOST: "highest", Operation.LEAST: "lowest"}
_FUNCTIONS = {
    Operation.SUM: "SUM", Operation.MEAN: "AVG", Operation.MOST: "MAX", Operation.LEAST: "MIN",
}  # fmt: skip
_FORMS = {4: "%Y", 7: "%Y-%m"}


@dataclass(frozen=True)
class TableAnswer:
    """One line of text, the `query` that it comes from, and the offsets of its first row."""

    text: str
    query: str
    start: int
    end: int


def nearest_answer(
    question: str,
    shelf: Shelf,
    best: Sequence[DocumentHit],
    said: DocumentHit | None,
    turns: Sequence[tuple[str, str]] = (),
) -> DocumentHit | None:
    """The answer of the nearest table that has one, from the row that was `said` if need be.

    The last of the `turns` goes first if it changes a question before, as in `following`.
    """
    nearest = {hit.document: hit for hit in reversed(best)}
    hits = [nearest[document] for document in dict.fromkeys(hit.document for hit in best)]
    tabled = ((hit, of) for hit in hits if (of := shelf.of(hit.document, hit.kind)))
    tables = [(hit, table) for hit, of in islice(tabled, _TABLED) for table in of]

    def answered(hit: DocumentHit, table: Table) -> TableAnswer | None:
        there = said is not None and said.document == hit.document
        row = table.row_at(said.start) if said is not None and there else None
        return answer(question, table, hit.title, row)

    for read in (lambda hit, table: following(turns, table, hit.title), answered):
        for hit, table in tables:
            if (found := read(hit, table)) is not None:
                line = replace(hit, text=found.text, query=found.query, start=found.start)
                return replace(line, end=found.end, score=1.0, relevance=HIGHEST)
    return None


def answer(question: str, table: Table, title: str, said: int | None = None) -> TableAnswer | None:
    """A table's answer, or why there is none; None if the question may not be about the table.

    A question that names no row may be about the one that was `said` before.
    """
    asked = Reading(question, table, title, said).query()
    return None if asked is None else _computed(asked, table, title)


def following(turns: Sequence[tuple[str, str]], table: Table, title: str) -> TableAnswer | None:
    """A table's answer to the last question if it changes one before: "And in March?".

    `turns` are questions and replies; None, too, if the reply before was not the table's.
    """
    if not turns or not FOLLOWING.match(turns[-1][0]):
        return None
    replied = list(takewhile(lambda turn: _may_be_of(table, title, turn[1]), turns[-2::-1]))
    whole = next((n for n, turn in enumerate(replied) if not FOLLOWING.match(turn[0])), None)
    query: TableQuery | None = None
    for question, reply in reversed(replied[: None if whole is None else whole + 1]):
        query = query and Reading(question, table, title).following(query)
        query = query or Reading(question, table, title).query()
        found = query and _computed(query, table, title)
        query = query if found and found.text in reply else None
    query = query and Reading(turns[-1][0], table, title).following(query)
    return _computed(query, table, title) if query else None


def _may_be_of(table: Table, title: str, reply: str) -> bool:
    """Whether a reply has what any answer of the table has: rows, a column or the title."""
    return " rows: " in reply or any(name in reply for name in (title, *table.columns) if name)


def _computed(asked: TableQuery, table: Table, title: str) -> TableAnswer | None:
    if len(table.columns) == 1 and asked.operation is not Operation.COUNT:
        return None  # items of a list are only counted
    over = asked.operation in _FUNCTIONS or asked.operation is Operation.COUNT
    compared = [each.column for each in asked.conditions if each.relation in COMPARED]
    compared += [each.other for each in asked.conditions if each.other is not None]
    left_out = table.totals if over or table.numeric.intersection(compared) else frozenset()
    rows = [row for row in range(len(table.rows)) if row not in left_out]
    needed = [*compared, *(c for c in asked.columns if asked.operation in _FUNCTIONS)]
    sql = statement(asked, table, title)
    for column in needed:
        held = table.held[column]
        if held.holds in (Holds.WORDS, Holds.UNDECIDED) or (held.either and column in compared):
            return TableAnswer(_undecided(table, column), sql, *table.spans[0])
    rows = [row for row in rows if all(meets(table, row, each) for each in asked.conditions)]
    if not rows:
        return None
    if asked.operation in _EXTREMES and asked.group is None:
        rows = _extreme(asked, table, rows)
    if asked.group is not None:
        text, rows = _grouped(asked, asked.group, table, rows)
    else:
        text = _worded(asked, table, rows, title)
    if text and left_out:
        summed = asked.columns if asked.operation is Operation.SUM else ()
        cells = (", ".join([table.label(n), *(table.rows[n][c] for c in summed)]) for n in left_out)
        text += f" (without the row {'; '.join(cells)})"
    return TableAnswer(text, sql, *table.spans[rows[0]]) if text else None


def _extreme(asked: TableQuery, table: Table, rows: Sequence[int]) -> list[int]:
    """Of the rows, those with the highest or the lowest number."""
    numbers = table.held[asked.columns[0]].values
    values = {row: value for row in rows if (value := numbers[row]) is not None}
    best = (max if asked.operation is Operation.MOST else min)(values.values(), default=None)
    return [row for row in values if values[row] == best]


def _worded(asked: TableQuery, table: Table, rows: list[int], title: str) -> str:
    """The answer in words; empty if it would be longer than anyone reads."""
    named = sum(len(condition.values) for condition in asked.conditions)
    match asked.operation:
        case Operation.CELLS if len(rows) <= _SHOWN:
            return "; ".join(_cells(asked, table, row) for row in rows)
        case Operation.ROWS if len(rows) == 1 or (len(rows) == 2 and named > 1):
            return " | ".join(_whole(table, row) for row in rows)
        case Operation.ROWS:
            shown = [
                c for e in asked.conditions if e.other is not None for c in (e.column, e.other)
            ]
            return f"{len(rows)} rows: {_labels(table, rows, shown)}"
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
    held, figure = table.held[column], _figure(asked, table, rows)
    if len(rows) == 1 or figure is None:
        return _cells(asked, table, rows[0])
    total, shown = figure
    # An ambiguous number is written alike below a thousand and with all its decimals.
    if held.either and (abs(total) >= _THOUSAND or total != round(total, held.decimals)):
        return _undecided(table, column)
    cells = (table.rows[row] for row in rows[:_SHOWN])
    parts = "; ".join(f"{row[0]}: {row[column] or 'not given'}" for row in cells)
    more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{_WHAT[asked.operation].format(table.columns[column])}: {shown} ({parts}{more})"


def _grouped(
    asked: TableQuery, group: Group, table: Table, rows: list[int]
) -> tuple[str, list[int]]:
    """The figure of each group, in their order; or the groups whose figure is the `best`.

    Behind it the rows of the first group. There is no text for fewer than two groups.
    """
    groups = defaultdict[str, list[int]](list)
    spelt: dict[str, str] = {}
    for row in rows:
        cell = _cell_of(group, table, row)
        groups[spelt.setdefault(same(cell), cell)].append(row)
    unnamed = len(groups.pop("", ()))
    without = {table.columns[group.column]: unnamed}
    figures = {cell: each for cell in groups if (each := _figure(asked, table, groups[cell]))}
    if len(figures) < 2:
        return "", rows
    name, column = table.columns[group.column], asked.columns[0] if asked.columns else None
    counts = asked.operation is Operation.COUNT
    if column is not None and not counts and table.held[column].either:
        return _undecided(table, column), rows
    if column is not None:
        cells = [row[column] for row in table.rows] if counts else table.held[column].values
        lacking = (cells[row] in ("", None) for each in groups.values() for row in each)
        without[table.columns[column]] = sum(lacking)
    missing = [f"{each} in {n} row{'s' * (n > 1)}" for each, n in without.items() if n]
    but = f" (not given: {', '.join(missing)})" if missing else ""
    passive = name.split()[-1:] == ["by"]  # "paid by"
    by = f", {name}" if passive else f" by {name}"
    what = "rows" if column is None else _WHAT[asked.operation].format(table.columns[column])
    rising = Operation.LEAST in (asked.operation, asked.best)
    order = sorted(figures, key=lambda cell: figures[cell][0], reverse=not rising)
    if asked.best is not None:
        best = [cell for cell in figures if figures[cell][0] == figures[order[0]][0]]
        which = f"the {_EXTREMES[asked.best]} of {len(figures)}{'' if passive else by}"
        return f"{'; '.join(best)}, {what}: {figures[best[0]][1]} ({which}){but}", groups[best[0]]
    order = sorted(figures) if group.letters else order
    parts = [f"{cell}: {figures[cell][1]}" for cell in order[:_GROUPS]]
    parts += [f"and {len(order) - _GROUPS} more"] if len(order) > _GROUPS else []
    return f"{what}{by}: {'; '.join(parts)}{but}", groups[order[0]]


def _cell_of(group: Group, table: Table, row: int) -> str:
    if group.letters is None:
        return table.rows[row][group.column]
    day = table.held[group.column].days[row]
    return day.isoformat()[: group.letters] if day else ""


def _figure(asked: TableQuery, table: Table, rows: list[int]) -> tuple[Decimal, str] | None:
    """The figure that is asked for of rows, and as it is shown; None if they have no number."""
    if asked.operation is Operation.COUNT:
        cells = {same(table.rows[row][c]) for row in rows for c in asked.columns} - {""}
        count = len(cells) if asked.columns else len(rows)
        return Decimal(count), str(count)
    held = table.held[asked.columns[0]]
    if asked.operation in _EXTREMES:
        rows = _extreme(asked, table, rows)
    values = [value for row in rows if (value := held.values[row]) is not None]
    if not values:
        return None
    if asked.operation in _EXTREMES:
        labels = "; ".join(table.label(row) for row in rows)
        return values[0], f"{held.shown(values[0], held.decimals)} ({labels})"
    if asked.operation is Operation.SUM:
        return (total := sum(values, Decimal(0))), held.shown(total, held.decimals)
    mean = sum(values, Decimal(0)) / len(values)
    return mean, held.shown(mean, max(_LEAST_PLACES, held.decimals))


def _undecided(table: Table, column: int) -> str:
    held = table.held[column]
    why = held.why or (TWO_WAYS if held.either else "it does not hold numbers alone")
    return f"No answer can be computed from the column {table.columns[column]}: {why}."


def _counted(asked: TableQuery, table: Table, rows: list[int], title: str) -> str:
    text = f"{len(rows)} row{'s' * (len(rows) != 1)} of {title}"
    if len(rows) < len(table.rows):
        text += f": {_labels(table, rows)}"
    for column in asked.columns:
        different = {same(table.rows[row][column]) for row in rows} - {""}
        if 1 < len(different) < len(rows):
            text += f" ({len(different)} different: {table.columns[column]})"
    return text


def _labels(table: Table, rows: list[int], shown: Sequence[int] = ()) -> str:
    more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    cells = [", ".join(f"{table.columns[c]}: {table.rows[n][c]}" for c in shown) for n in rows]
    labels = (table.label(row) + (f" ({cell})" if cell else "")
              for row, cell in zip(rows[:_SHOWN], cells, strict=False))  # fmt: skip
    return "; ".join(labels) + more


def _cells(asked: TableQuery, table: Table, row: int) -> str:
    shown = [column for column in asked.columns if column] or list(asked.columns)
    named = [table.rows[row][column] for column in table.named if column not in shown]
    cells = (f"{table.columns[c]}: {table.rows[row][c] or 'not given'}" for c in shown)
    return ", ".join((*filter(None, named), *cells))


def _whole(table: Table, row: int) -> str:
    pairs = zip(table.columns, table.rows[row], strict=True)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


# The query as it is shown: in SQL, which is never run.


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
            what = f"{_FUNCTIONS[asked.operation]}({names[0]})"
    terms = [_term(condition, table) for condition in asked.conditions]
    if asked.operation in _EXTREMES and asked.group is None:
        within = f" WHERE {' AND '.join(terms)}" if terms else ""
        best = f"{_FUNCTIONS[asked.operation]}({names[0]})"
        terms.append(f"{names[0]} = (SELECT {best} FROM {source}{within})")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    if asked.group is None:
        return f"SELECT {what} FROM {source}{where}"
    by = _quoted(table.columns[asked.group.column])
    cells = {row[asked.group.column] for row in table.rows}
    if asked.group.letters is None and len(set(map(same, cells))) < len(cells):
        by = f"LOWER({by})"  # as the groups are
    if asked.group.letters is not None:
        by = f"strftime('{_FORMS[asked.group.letters]}', {by})"
    rising = Operation.LEAST in (asked.best, asked.operation)
    order = f"{what} {'ASC' if rising else 'DESC'}" if asked.group.letters is None else by
    return f"SELECT {by}, {what} FROM {source}{where} GROUP BY {by} ORDER BY {order}"


def _term(condition: Condition, table: Table) -> str:
    name = _quoted(table.columns[condition.column])
    if condition.other is not None:
        return f"{name} {condition.relation} {_quoted(table.columns[condition.other])}"
    if condition.relation in COMPARED:
        (bound,) = condition.values
        dated = table.held[condition.column].dated
        return f"{name} {condition.relation} {repr(bound) if dated else bound}"
    values = ", ".join("'" + value.replace("'", "''") + "'" for value in condition.values)
    if len(condition.values) > 1:
        return f"{name} {condition.relation} ({values})"
    return f"{name} {'=' if condition.relation == 'IN' else '<>'} {values}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
