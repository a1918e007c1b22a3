"""A query of a table; and the group or the cell that a question asks for in so many words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.documents.tables import roles, wording
from app.documents.tables.conditions import Condition, rest_of, rows_with
from app.documents.tables.naming import parts_of
from app.documents.tables.records import Table
from app.documents.tables.wording import Operation
from dragon.retrieval.lexical import words


@dataclass(frozen=True)
class Group:
    """Rows alike in a column; in a column of dates, in the first `letters` of the date."""

    column: int
    letters: int | None = None


@dataclass(frozen=True)
class TableQuery:
    """`columns` are those asked for; the operation is on the first one, where it is on any.

    With a `group` it gives a figure for each, or those with the highest or lowest, if that is
    what is `best`. A count of a group's rows is one of different cells, if it is on a column.
    """

    operation: Operation
    columns: tuple[int, ...]
    conditions: tuple[Condition, ...] = ()
    group: Group | None = None
    best: Operation | None = None


def group_named(question: str, table: Table) -> tuple[Group | None, str]:
    """The group that a question asks for a figure of each of, and the question without it."""
    measured = table.numeric.union(roles.dates(table))
    plain = [column for column in range(len(table.columns)) if column not in measured]
    for found in wording.EACH.finditer(question):
        said = words(question[found.end() :]) or [""]
        column, length = roles.begun_with(said, plain, table)
        letters = None
        if column is None and (letters := wording.DATE_LETTERS.get(said[0])):
            possible = [c for c in roles.when(table, ()) if any(table.held[c].days)]
        elif column is None and said[0] == "person":
            possible = [c for c in plain if wording.PAYERS & set(parts_of(table.columns[c]))]
        else:
            possible = [] if column is None or said[0] in wording.APIECE else [column]
        if len(possible) == 1:
            rest = rest_of(question[found.end() :], max(1, length))
            return Group(possible[0], letters), f"{question[: found.start()]} , {rest}"
    return None, question


def cell_named(question: str, table: Table) -> TableQuery | None:
    """The cell that a question asks for in so many words, by its column's name and its row's."""
    for found in filter(None, (each.fullmatch(question.strip()) for each in wording.CELL)):
        name, row = found["column"].casefold(), found["row"].casefold()
        asked = [n for n, each in enumerate(table.columns) if each.casefold() == name][:1]
        held = [
            Condition(column, "IN", tuple(sorted(named)))
            for column, cells in enumerate(zip(*table.rows, strict=True))
            if (named := {each for each in cells if each.casefold() == row})
            # A number names a row in the first column alone.
            and [column] != asked
            and not (column and column in table.numeric)
        ]
        # What names one row is that row's name; what is in several columns is none.
        alone = len(held) == 1 or (held and held[0].column == 0 and table.is_a_key(0))
        if asked and alone:
            return TableQuery(Operation.CELLS, tuple(asked), (held[0],))
    return None


def signed(
    columns: Sequence[int],
    conditions: Sequence[Condition],
    table: Table,
    found: TableQuery | None = None,
) -> bool:
    """Whether nothing says on which side of 0 expenses are: no name, no rows below it alone.

    The highest of such rows is the smallest expense.
    """
    rows = rows_with(conditions, table)
    extreme = found and {found.operation, found.best} & {Operation.MOST, Operation.LEAST}
    cells = not extreme and any(each.relation == "IN" for each in conditions)
    for column in columns:
        values = table.held[column].values
        if values and wording.PRICED.isdisjoint(parts_of(table.columns[column])):
            below = all(value < 0 for n in rows if (value := values[n]) is not None)
            if any(value and value < 0 for value in values) and not (cells and below):
                return True
    return False
