"""Reads a question as a query of a table, from its words and the table's, or not at all.

A word that neither the table nor a query accounts for makes it another question: "the most
expensive hotel in Paris" is none for a table of bicycles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from app.documents.tables import roles, wording
from app.documents.tables.conditions import (
    Condition,
    cells_named,
    columns_compared,
    dated,
    days_named,
    narrowed,
    says_more,
)
from app.documents.tables.naming import Words, alike, named_by, parts_of
from app.documents.tables.query import Group, TableQuery, cell_named, group_named, signed
from app.documents.tables.records import Table
from app.documents.tables.wording import Operation
from dragon.retrieval.lexical import content_words, stem, words

_PLAIN = wording.PLAIN | wording.ROWS


class Reading:
    """A question about a table with this title, and which of its words are accounted for.

    `said` is the row that the conversation was about, if any.
    """

    def __init__(self, question: str, table: Table, title: str, said: int | None = None) -> None:
        self._table, self._said, self._whole = table, said, question
        self._title = words(title.rpartition(".")[0] or title)
        nouns = [word for word in self._title if word.isalpha() and word not in wording.CONTAINERS]
        self._rows = roles.row_nouns(table).union(nouns[-1:])  # of a title, the last noun
        # Each takes its own words out of the question.
        self._against, rest = columns_compared(question, table)
        self._group, rest = group_named(rest, table)
        days = days_named(rest, table)
        self._no_days = days is None
        self._within, self._text = days or ((), rest)
        self._words = Words(self._text)
        # What `_read` finds in the rest.
        self._conditions: list[Condition] = []
        self._columns: list[int] = []
        self._asked: set[str] = set()
        self._operation, self._counts = Operation.CELLS, False

    def query(self) -> TableQuery | None:
        """The query of the table that it is; None if it may be about something else."""
        if cell := cell_named(self._whole, self._table):
            return cell
        if self._no_days:
            return None
        self._read()
        if self._words.unsure or says_more(self._text, self._conditions, self._table):
            return None
        if (found := self._asked_for()) is None:
            return None
        over = [column for column in found.columns if column in self._table.numeric]
        priced = found.operation is not Operation.CELLS and wording.PRICED & self._asked
        paid = any(stem(word) in wording.PAYMENTS for word in self._asked)
        over = sorted(self._table.numeric) if paid else over if priced else []
        if signed(over, self._conditions, self._table, found):
            return None
        if found.operation in wording.COMPUTED and len(found.columns) != 1:
            return None
        rates = (wording.A_RATE.search(self._table.columns[column]) for column in found.columns)
        if found.operation is Operation.SUM and any(rates):
            return None
        if found.operation is Operation.CELLS and set(found.columns) == {0}:
            found = replace(found, operation=Operation.ROWS)
        if found.operation is Operation.CELLS and not self._conditions:
            return None
        narrowed(self._conditions, self._unaccounted(), self._words, self._table)
        rows = found.operation is Operation.ROWS
        if self._unaccounted() or not (self._conditions or rows or self._is_about()):
            return None
        if rows and not (self._conditions and self._lists()):
            return None
        return replace(found, conditions=tuple(self._conditions))

    def following(self, before: TableQuery) -> TableQuery | None:
        """The query of the question before, with the days, cells or columns of this one.

        "And in March?" and "What about Tobias?" say nothing else.
        """
        said = wording.FOLLOWING.match(self._whole)
        if said is None or self._no_days or self._against or self._group:
            return None
        own = {each.column for each in before.conditions}
        self._read(preferred=own)
        self._words.take(words(said[0]))
        if self._unaccounted() or self._operation is not Operation.CELLS or self._words.unsure:
            return None
        if wording.AMOUNT.search(self._text):
            return None
        if says_more(self._text, self._conditions, self._table):
            return None
        if not self._conditions:
            single = before.operation is Operation.CELLS and self._columns
            return replace(before, columns=tuple(self._columns)) if single else None
        new = {each.column for each in self._conditions}
        days = {each.column for each in self._within}
        # Another cell stands for one of the same column; or is the first condition.
        if self._columns or (own and not new <= own | days):
            return None
        kept = [each for each in before.conditions if each.column not in new]
        self._conditions = kept + self._conditions
        self._columns = list(before.columns)
        figure = before.operation not in (Operation.CELLS, Operation.ROWS, Operation.COUNT)
        if figure and signed(before.columns, self._conditions, self._table, before):
            return None
        if before.operation is Operation.SUM and self._is_unsure():
            return None
        if self._compares and self._compares_sums():
            return None
        return replace(before, conditions=tuple(self._conditions))

    # What it asks for.

    def _read(self, preferred: Collection[int] = ()) -> None:
        """Read the conditions, the operation and the columns."""
        table, left = self._table, self._words
        against = [self._against] if self._against else []
        cells = cells_named(left, table, self._title, preferred)
        self._conditions = [*self._within, *against, *cells]
        asked = set(words(wording.AMOUNT.sub(" ", self._text))) - left.cells
        # "The minimum stock" is a cell of the column "Min. stock".
        limits = {word for word in asked & wording.LIMITS if roles.is_named(table, word)}
        self._asked = asked - limits
        self._operation = wording.operation_of(self._asked)
        if self._asked & wording.EXTREME:  # "the highest total" is of a column of that name
            named_so = {w for w in self._asked & wording.SUMMED if roles.is_named(table, w)}
            self._operation = wording.operation_of(self._asked - named_so)
        left.take(wording.OPERATION_WORDS - wording.PRICED - limits)
        self._columns = roles.asked_for(self._asked, left, table)
        self._counts = wording.COUNTS.search(self._text) is not None
        if self._counts:
            if wording.OFTEN.search(self._text):
                left.take(wording.GOING)
            for column in [each for each in self._columns if each in table.flags]:
                self._conditions.append(Condition(column, "IN", table.yes(column)))
                self._columns.remove(column)
        for form in (wording.ABOUT, *([wording.WORKING] if "people" in self._rows else [])):
            for found in form.finditer(self._text):
                left.take(words(found[0]))

    @property
    def _numeric(self) -> list[int]:
        """The columns of numbers that are asked for."""
        return [column for column in self._columns if column in self._table.numeric]

    @property
    def _compares(self) -> bool:
        """Whether amounts are compared: one that it names, or one of a column."""
        return wording.AMOUNT.search(self._text) is not None or any(
            each.other is not None
            or (each.relation in wording.RELATIONS.values() and each.column in self._table.numeric)
            for each in self._conditions
        )

    def _asked_for(self) -> TableQuery | None:
        """The operation and its columns; what it asks for but these is in the conditions."""
        listed = self._counts or wording.LISTED.search(self._text)
        alone = listed and self._operation is Operation.CELLS
        if self._against and (wording.SPENDING.search(self._text) or not alone):
            return None  # how far it is over budget, or a sum of what is
        if self._compares and self._compares_sums():
            return None
        if self._group is not None:
            return self._figures(self._group) if self._bounded() else None
        if extreme := self._extreme_of_groups():
            return self._best_group(extreme)
        if self._operation in (Operation.MOST, Operation.LEAST):
            self._columns = roles.compared(
                self._columns, self._table, dated=bool(wording.DATED & self._asked)
            )
            summed = set(roles.money(self._table, spent=True))
            names = {c: parts_of(self._table.columns[c]) for c in self._columns}
            summed |= {c for c, name in names.items() if wording.SUMMED.intersection(name)}
            if summed.intersection(self._columns) and self._asks_for_a_group():
                return None  # the row with the highest amount, or the highest of sums
        if not self._bounded():
            return None
        cells = self._numeric if self._counts else self._columns
        row = self._said if self._table.is_a_key(0) and not self._conditions else None
        if cells and row is not None and self._operation is Operation.CELLS:
            self._conditions.append(Condition(0, "IN", (self._table.rows[row][0],)))
        match self._operation:
            case Operation.CELLS if self._counts:
                return self._count()
            case Operation.CELLS:
                return self._cells()
            case Operation.SUM | Operation.MEAN:
                named = self._numeric
                named = named or ([] if self._columns else roles.money(self._table, spent=True))
                return TableQuery(self._operation, tuple(named))
        return TableQuery(self._operation, tuple(self._columns))

    def _bounded(self) -> bool:
        """Add the amounts that its one column of numbers is compared with, unless none is meant."""
        for found in wording.AMOUNT.finditer(self._text):
            if not self._numeric and wording.CURRENCY.search(self._text, found.start()):
                self._columns += roles.money(self._table, spent=False)
            if len(self._numeric) != 1:
                return False
            (column,) = self._numeric
            if (bound := self._table.held[column].number(found[2].lstrip("€£$ "))) is None:
                return False
            how = wording.relation(found[1])
            self._conditions.append(Condition(column, how, (f"{bound:f}",)))
            self._words.take(words(found[0]))
        return True

    def _count(self) -> TableQuery | None:
        """How many rows there are, or the sum of the column of numbers that is named."""
        often = wording.OFTEN.search(self._text) is not None
        numeric = [] if often or self._asks_for_a_group() else self._numeric
        noun = wording.KIND.search(self._text)
        # "How many hammers?" asks for the stock of the row.
        if noun and noun[1].lower() in self._words.cells and not numeric:
            numeric = roles.quantities(self._table)
        if len(numeric) > 1 or (often and not self._conditions):
            return None  # it may ask for any of them
        if numeric and not self._compares and self._conditions:
            return TableQuery(Operation.SUM, tuple(numeric))
        found = {each.column for each in self._conditions}
        for column in set(roles.dates(self._table)).intersection(self._columns) - found:
            self._conditions.append(dated(column, self._table))  # "were delivered"
        return TableQuery(
            Operation.COUNT, tuple(c for c in self._columns if c not in self._table.numeric)
        )

    def _cells(self) -> TableQuery | None:
        """Cells, whole rows, or the sum of what was paid."""
        table, columns, numeric = self._table, self._columns, self._numeric
        spent = roles.money(table, spent=True)
        if self._asked & wording.PAYING and columns == numeric == spent:
            if (
                not self._conditions
                or self._is_unsure()
                or signed(numeric, self._conditions, table)
            ):
                return None
            sums = numeric and wording.SPENDING.search(self._text)
            return TableQuery(Operation.SUM, tuple(numeric)) if sums else None
        days = set(roles.dates(table)) if wording.NO_DAY.search(self._text) else set()
        if days.intersection(columns) - {each.column for each in self._conditions}:
            return None  # "who delivers it": not when
        if wording.NO_FIGURE.search(self._text):  # "who did the labour": not its price
            columns = [column for column in columns if column not in days.union(numeric)]
        if self._compares or not columns:
            return TableQuery(Operation.ROWS, tuple(columns))
        return TableQuery(Operation.CELLS, tuple(columns))

    def _figures(self, group: Group, best: Operation | None = None) -> TableQuery | None:
        """A figure for each group, or the groups with the highest or the lowest."""
        if any(each.column == group.column and len(each.values) == 1 for each in self._conditions):
            return None  # "by supplier Smith" is no group
        if self._groups_more(group, best):
            return None  # "by town and year"
        # Rows or cells are counted, and not the amounts that are compared or were paid.
        counted = self._counts and (self._compares or self._asks_for_a_group())
        numeric = [c for c in self._numeric if c != group.column and not counted]
        operation = wording.operation_of(self._asked - wording.EXTREME if best else self._asked)
        if (best and self._most_rows()) or (self._counts and not numeric):
            return None if operation in wording.COMPUTED else self._count_each(group, best)
        if operation is Operation.MEAN and (group.letters or self._table.is_a_key(group.column)):
            return None  # "the average price per order", or "per month", is one figure
        if operation in (Operation.MOST, Operation.LEAST):
            if self._asked & wording.QUANTITY:
                return None  # the highest of sums
            numeric = roles.compared(self._columns, self._table, dated=False)
        elif operation is Operation.CELLS:
            spent = roles.money(self._table, spent=True)
            numeric = numeric or (spent if best else [])
            # It may ask for each one, or for their mean.
            if self._is_unsure() or not (self._counts or set(numeric) <= set(spent)):
                return None
            operation = Operation.SUM
        return TableQuery(operation, tuple(numeric), (), group, best)

    def _groups_more(self, group: Group, best: Operation | None) -> bool:
        """Whether figures may be asked for of more than one group: of each town in each year."""
        kind, extreme = wording.KIND.search(self._text), wording.EXTREME & self._asked
        counted = {
            column
            for column in self._columns
            if kind and named_by(kind[1].lower(), self._table.columns[column])
            if self._counts or (extreme and self._table.is_a_key(column))
        }
        more = set(self._columns) - self._table.numeric - counted - {group.column}
        more -= {each.column for each in self._conditions}
        spans = wording.DATE_LETTERS.keys() & set(words(self._text))
        return (
            (bool(more) and not best)
            or any(not roles.is_named(self._table, word) for word in spans)
            or wording.AND_MORE.search(self._text) is not None
        )

    def _count_each(self, group: Group, best: Operation | None) -> TableQuery | None:
        """How many rows each group has, or how many different cells of a column that is named."""
        noun = wording.KIND.search(self._text)
        named = [c for c in self._columns if c != group.column] if noun and not best else []
        counted = [c for c in named if noun and named_by(noun[1].lower(), self._table.columns[c])]
        if any(map(self._table.is_a_key, counted)):
            counted = []
        if len(counted) > 1 or (counted and roles.quantities(self._table)):
            return None
        return TableQuery(Operation.COUNT, tuple(counted), (), group, best)

    def _extreme_of_groups(self) -> Operation | None:
        """The extreme that is asked for of sums: "the most spent", not "the highest expense"."""
        free = {word for word in self._asked if not roles.is_named(self._table, word)}
        total = wording.operation_of(free)
        extreme = wording.operation_of(free - wording.SUMMED)
        if extreme not in (Operation.MOST, Operation.LEAST):
            return None
        most = self._asked & wording.QUANTITY and "expensive" not in self._asked
        paid = self._asked & wording.PAYING
        summed = total is not extreme or (most and (paid or self._asks_for_a_group()))
        return extreme if summed or self._most_rows() else None

    def _best_group(self, extreme: Operation) -> TableQuery | None:
        """The group with the highest or the lowest figure, of the one column that may have some."""
        table = self._table
        measured = table.numeric.union(roles.dates(table))
        several = [c for c in self._columns if c not in measured and not table.is_a_key(c)]
        if len(several) != 1 or self._counts or wording.AMOUNT.search(self._text):
            return None
        return self._figures(Group(several[0]), extreme)

    def _most_rows(self) -> bool:
        """Whether it asks for what has the most rows: the most orders, but not costs."""
        most = wording.MOST_OF.search(self._text)
        if most is None or self._numeric or {most[1].lower()} & wording.PRICED:
            return False
        first = self._table.columns[0] if self._table.is_a_key(0) else ""
        noun = most[1].lower()
        return any(alike(noun, each) for each in self._rows) or named_by(noun, first)

    # How it asks.

    def _lists(self) -> bool:
        """Whether it asks for rows; by their own names, if it says nothing of what is asked."""
        about = wording.ABOUT.search(self._text)
        if about or (wording.IDENTITY.search(self._text) and not self._compares):
            naming = {
                *self._table.named,
                *filter(self._table.is_a_key, range(len(self._table.columns))),
            }
            if not naming.issuperset(each.column for each in self._conditions):
                return False
        return about is not None or wording.LISTED.search(self._text) is not None

    def _is_unsure(self) -> bool:
        """Whether a sum of what was paid may not be what is asked for."""
        most = wording.MOST_OF.search(self._text)
        if wording.UNSURE.search(self._text) or (
            most and any(alike(most[1].lower(), each) for each in self._title)
        ):
            return True
        paid = wording.PAID_TO.search(self._text)
        return paid is not None and any(
            paid[1].lower() in words(value)
            and wording.PAYERS.intersection(parts_of(self._table.columns[each.column]))
            for each in self._conditions
            for value in each.values
        )

    def _asks_for_a_group(self) -> bool:
        """Whether "which category", or what else is asked for, is one of several rows."""
        kind = wording.KIND.search(self._text)
        return kind is not None and any(
            named_by(kind[1].lower(), name) and not self._table.is_a_key(column)
            for column, name in enumerate(self._table.columns)
            if column not in self._table.numeric
        )

    def _compares_sums(self) -> bool:
        """Whether what is compared may be sums of rows: of a team, whose players have goals."""
        table, found = self._table, {each.column for each in self._conditions}
        plain = set(range(len(table.columns))) - table.numeric.union(roles.dates(table))
        asked = plain.intersection(self._columns) - found
        if wording.WHO.search(self._text):
            names = wording.PAYERS | wording.CUSTOMERS | {"name", "employee"}
            people = {c for c in plain if names & set(parts_of(table.columns[c]))}
            if not people and "person" not in self._rows:
                return True  # nothing says which column is who
            asked |= people | {0}
        return self._asks_for_a_group() or not all(map(table.is_a_key, asked))

    def _unaccounted(self) -> Sequence[str]:
        """The words of the question that may be about anything else."""
        rows = {found[1].lower() for found in wording.ROW.finditer(self._text)}
        nouns = _PLAIN | wording.UNITS - set(self._title) | self._rows
        return [
            word
            for word in self._words.left
            if not any(alike(word, each) for each in nouns)
            and (word in rows or not any(alike(word, each) for each in self._title))
        ]

    def _is_about(self) -> bool:
        """Whether it names a group, a column or what the table has, or is about a row before."""
        about = (set(self._title) | self._rows) - wording.PLAIN | wording.ROWS
        return bool(self._group or self._said is not None) or any(
            any(alike(word, each) for each in about) or roles.is_named(self._table, word)
            for word in content_words(self._whole)
        )
