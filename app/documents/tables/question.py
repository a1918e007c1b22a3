"""Reads a question as a query of a table, from its words and the table's, or not at all.

A word that neither the table nor a query accounts for makes it another question: "the most
expensive hotel in Paris" is none for a table of bicycles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.documents.tables import wording
from app.documents.tables.columns import Holds
from app.documents.tables.naming import (
    alike,
    has_other_forms,
    has_word,
    named_by,
    parts_of,
    scattered,
    spellings,
    title_in,
    together,
)
from app.documents.tables.periods import period_in
from app.documents.tables.records import Table
from app.documents.tables.wording import Operation
from dragon.retrieval.lexical import content_words, stem, words


@dataclass(frozen=True)
class Condition:
    """`relation` is an operator of SQL: cells of `column` are one of `values`, or above one."""

    column: int
    relation: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class TableQuery:
    """`columns` are those asked for; the operation is on the first one, where it is on any.

    An extreme is one of the sums of the rows that are alike in the column `group`, if any.
    """

    operation: Operation
    columns: tuple[int, ...]
    conditions: tuple[Condition, ...]
    group: int | None = None


class Reading:
    """A question about a table with this title, and which of its words are accounted for.

    `said` is the row that the conversation was about, if any.
    """

    def __init__(self, question: str, table: Table, title: str, said: int | None = None) -> None:
        self._table = table
        self._said = said
        self._whole = question
        self._no_days = False  # it asks for some that no column tells apart
        self._within, self._asked = self._period(question)
        self._left = dict.fromkeys(content_words(self._asked))
        self._named: set[str] = set()  # words of cells
        title = title.rpartition(".")[0] or title
        about = set(words(title)) - wording.PLAIN | wording.ROWS
        self._about = said is not None or any(
            any(alike(word, each) for each in about) or self._names_a_column(word)
            for word in content_words(question)
        )
        self._title = words(title)
        self._known = wording.PLAIN | wording.ROWS | wording.UNITS | set(words(title))

    def query(self) -> TableQuery | None:
        """The query of the table that it is; None if it may be about something else."""
        if cell := self._cell():
            return cell
        if self._no_days or wording.BEYOND.search(wording.COMPARED.sub("", self._asked)):
            return None
        conditions = [*self._within, *self._equal()]
        asked = set(words(wording.AMOUNT.sub(" ", self._asked))) - self._named
        # "The minimum stock" is a cell of the column "Min. stock".
        asked -= {word for word in asked & wording.LIMITS if self._names_a_column(word)}
        operation, group = wording.operation_of(asked), None
        for mark in wording.OPERATION_WORDS - wording.PRICED:
            self._left.pop(mark, None)
        columns = self._columns(asked)
        counts = wording.COUNTS.search(self._asked) is not None
        if counts:
            for column in [each for each in columns if each in self._table.flags]:
                conditions.append(Condition(column, "IN", self._table.yes(column)))
                columns.remove(column)
        if extreme := self._extreme_of_sums(asked):
            group, columns = self._group(columns), self._spent(columns)
            beyond = counts or operation is Operation.MEAN or wording.AMOUNT.search(self._asked)
            if group is None or beyond or self._is_unsure(conditions):
                return None
            operation = extreme
        elif operation in (Operation.MOST, Operation.LEAST):
            columns = self._measure(columns, dated=bool(wording.DATED & asked))
            if set(columns) & set(self._money(spent=True)) and self._asks_for_a_group():
                return None  # the row with the highest amount, or the highest of sums
        numeric = [column for column in columns if column in self._table.numeric]
        if operation is not Operation.CELLS and wording.PRICED & asked and self._signed(numeric):
            return None  # nothing says on which side of 0 expenses are
        for found in wording.AMOUNT.finditer(self._asked):
            if len(numeric) != 1:
                return None
            conditions.append(
                Condition(
                    numeric[0], wording.RELATIONS[found[1].lower()], (found[2].lstrip("€£$ "),)
                )
            )
            for word in words(found[0]):
                self._left.pop(word, None)
        cells = numeric if counts else columns
        if cells and not conditions and operation is Operation.CELLS:
            conditions += self._row_said()
        compared = wording.AMOUNT.search(self._asked) is not None
        if operation is Operation.CELLS:
            if counts:
                if len(numeric) > 1:
                    return None  # it may ask for any of them
                summed = len(numeric) == 1 and not compared and conditions
                operation = Operation.SUM if summed else Operation.COUNT
                columns = numeric if summed else [c for c in columns if c not in numeric]
            elif asked & wording.PAYING and columns == numeric == self._money(spent=True):
                if not conditions or self._is_unsure(conditions) or self._signed(numeric):
                    return None
                if not wording.SPENDING.search(self._asked):
                    return None
                operation = Operation.SUM
            else:
                if wording.NO_FIGURE.search(self._asked):  # "who did the labour": not its price
                    columns = [column for column in columns if column not in numeric]
                if compared or not columns:
                    operation = Operation.ROWS
        elif operation in (Operation.SUM, Operation.MEAN):
            columns = numeric or columns[:1]
        if operation in wording.COMPUTED and len(columns) != 1:
            return None
        if operation is Operation.SUM and wording.A_RATE.search(self._table.columns[columns[0]]):
            return None
        if operation is Operation.CELLS and set(columns) == {0}:
            operation = Operation.ROWS
        if operation is Operation.CELLS and not conditions:
            return None
        conditions = self._narrowed(conditions)
        if self._unaccounted() or not (conditions or operation is Operation.ROWS or self._about):
            return None
        if operation is Operation.ROWS and not (conditions and wording.LISTED.search(self._asked)):
            return None
        return TableQuery(operation, tuple(columns), tuple(conditions), group)

    def _names_a_column(self, word: str) -> bool:
        return any(named_by(word, name) for name in self._table.columns)

    def _is_unsure(self, conditions: Sequence[Condition]) -> bool:
        """Whether a sum of what was paid may not be what is asked for."""
        most = wording.MOST_OF.search(self._asked)
        if wording.UNSURE.search(self._asked) or (
            most and any(alike(most[1].lower(), each) for each in self._title)
        ):
            return True
        paid = wording.PAID_TO.search(self._asked)
        return paid is not None and any(
            paid[1].lower() in words(value)
            and wording.PAYERS.intersection(parts_of(self._table.columns[each.column]))
            for each in conditions
            for value in each.values
        )

    def _extreme_of_sums(self, asked: set[str]) -> Operation | None:
        """The extreme that is asked for of sums: "the most spent", not "the highest expense"."""
        free = {word for word in asked if not self._names_a_column(word)}
        total = wording.operation_of(free)
        extreme = wording.operation_of(free - wording.SUMMED)
        if extreme not in (Operation.MOST, Operation.LEAST):
            return None
        most = asked & wording.QUANTITY and "expensive" not in asked
        paid = asked & wording.PAYING
        summed = total is not extreme or (most and (paid or self._asks_for_a_group()))
        return extreme if summed else None

    def _asks_for_a_group(self) -> bool:
        """Whether "which category", or what else is asked for, is one of several rows."""
        kind = wording.KIND.search(self._asked)
        return kind is not None and any(
            named_by(kind[1].lower(), name) and not self._table.is_a_key(column)
            for column, name in enumerate(self._table.columns)
            if column not in self._table.numeric
        )

    def _group(self, named: Sequence[int]) -> int | None:
        """The column whose equal cells make a group: the only one of words that is named."""
        measured = self._table.numeric.union(self._dates())
        several = [c for c in named if c not in measured and not self._table.is_a_key(c)]
        return several[0] if len(several) == 1 else None

    def _spent(self, named: Sequence[int]) -> list[int]:
        """The column of amounts that is named, or the only one."""
        numeric = [column for column in named if column in self._table.numeric]
        spent = self._money(spent=True)
        return numeric if numeric and set(numeric) <= set(spent) else [] if numeric else spent

    def _period(self, question: str) -> tuple[Sequence[Condition], str]:
        """The days that the question is about, as conditions, and the question without them."""
        found = period_in(question)
        if found is None:
            return (), question
        rest = f"{question[: found.start]} , {question[found.end :]}"
        conditions: dict[Sequence[bool], Sequence[Condition]] = {}
        for column in self._when(content_words(rest)):
            days = self._table.held[column].days
            if not any(days):
                continue
            if within := found.days({day for day in days if day}):
                first, end = within
                met = tuple(
                    day is not None and (not first or first <= day) and (not end or day < end)
                    for day in days
                )
                bounds = ((">=", first), ("<", end))
                conditions[met] = [
                    Condition(column, relation, (day.isoformat(),))
                    for relation, day in bounds
                    if day
                ]
        if len(conditions) != 1:  # of the columns, one must be meant
            self._no_days = found.first != found.last
            return (), question
        return next(iter(conditions.values())), rest

    def _when(self, asked: Sequence[str]) -> Sequence[int]:
        """The columns that say when a row was: named in the question, or by nothing but a date."""
        names = {column: self._table.columns[column] for column in self._dates()}
        said = [c for c, name in names.items() if any(named_by(w, name) for w in asked)]
        return said or [
            c for c, name in names.items() if not c or set(parts_of(name)) <= wording.WHEN
        ]

    def _row_said(self) -> Iterator[Condition]:
        """The row that was said before, if its first cell tells it from the others."""
        if self._said is not None and self._table.is_a_key(0):
            yield Condition(0, "IN", (self._table.rows[self._said][0],))

    def _cell(self) -> TableQuery | None:
        """The cell that it asks for in so many words, by its column's name and its row's."""
        for form in wording.CELL:
            if not (found := form.fullmatch(self._whole.strip())):
                continue
            name, row = found["column"].casefold(), found["row"].casefold()
            asked = [n for n, each in enumerate(self._table.columns) if each.casefold() == name]
            for column, cells in enumerate(zip(*self._table.rows, strict=True)):
                # A number names a row in the first column alone.
                if not asked or column == asked[0] or (column and column in self._table.numeric):
                    continue
                if named := {each for each in cells if each.casefold() == row}:
                    conditions = (Condition(column, "IN", tuple(sorted(named))),)
                    return TableQuery(Operation.CELLS, (asked[0],), conditions)
        return None

    def _equal(self) -> Iterator[Condition]:
        """Cells that the question names, the longest first; one column each."""
        table = self._table
        named: dict[tuple[str, ...], dict[int, set[str]]] = {}
        for column in range(len(table.columns)):
            rows = (row for n, row in enumerate(table.rows) if n not in table.totals)
            cells = {row[column] for row in rows if row[column]}
            if column and column in table.numeric:
                continue
            for cell in cells:
                for spelt in spellings(cell, table.columns[column]):
                    named.setdefault(spelt, {}).setdefault(column, set()).add(cell)
        tokens = words(self._asked)
        free = [True] * len(tokens)
        titled = title_in(tokens, self._title)
        chosen: dict[int, set[str]] = {}
        longest_first = sorted(named, key=lambda each: (-len(each), each))
        # Cells named in their own words go before cells named in other forms.
        formed = [each for each in longest_first if has_other_forms(each, named[each])]
        for spelt, places_of in (
            *((each, together) for each in longest_first),
            *((each, scattered) for each in formed),
        ):
            while (places := places_of(spelt, tokens, free)) and self._says(spelt):
                if any(set(places) < set(said) for said in titled):
                    break  # "all household expenses" are not those of the category "Household"
                column = min(named[spelt], key=lambda c: len(named[spelt][c]))
                chosen.setdefault(column, set()).update(named[spelt][column])
                for at in places:
                    free[at] = False
                    self._named.add(tokens[at])
                    self._left.pop(tokens[at], None)
        for column, cells in chosen.items():
            yield Condition(column, "IN", tuple(sorted(cells)))

    def _says(self, spelt: Sequence[str]) -> bool:
        """Whether words name a cell, and not by chance: "m" only where the question has "M"."""
        if len(spelt) > 1:
            return True
        (word,) = spelt
        if len(word) < 3:
            return bool(re.search(rf"(?<![\w'’]){re.escape(word.upper())}(?!\w)", self._asked))
        return bool(content_words(word))

    def _columns(self, asked: set[str]) -> list[int]:
        """Columns that the question names, or that hold the prices or dates it asks for."""
        hits: dict[int, set[str]] = {}
        limits = wording.LIMITS & set(words(self._asked))
        for column, name in enumerate(self._table.columns):
            parts = [
                each for each in parts_of(name) if each not in wording.UNITS or each in self._left
            ]
            parts = parts or parts_of(name)
            if wording.LIMITS & set(parts) and not any(named_by(w, name, parts) for w in limits):
                continue  # the stock is not "Min. stock"
            hits[column] = {w for w in self._left if named_by(w, name, parts)}
        # "Costs 2024" is named more closely by "the costs in 2024" than "Costs 2025" is.
        found = {
            c: None for c, hit in hits.items() if hit and not any(hit < o for o in hits.values())
        }
        names = [self._table.columns[column] for column in found]
        for word in list(self._left):
            if any(named_by(word, name) for name in names):
                del self._left[word]
        kind = wording.KIND.search(self._asked)
        if kind and wording.COUNTS.match(kind[0]) and not wording.AMOUNT.search(self._asked):
            asked = asked - {kind[1].lower()}  # "how many expenses": they are counted
        measured = found.keys() & self._table.numeric.union(self._dates())
        dates, money = self._dates(), self._money(spent=bool(wording.SPENT & asked))
        if not wording.HOW_MUCH.search(self._asked):  # "who has paid" asks for no money
            asked = {word for word in asked if not any(named_by(word, name) for name in names)}
        priced = {word for word in asked if {word, stem(word)} & wording.PRICED}
        # "Which course is the cheapest?" names what a row is, not what is compared.
        if priced and len(money) == 1 and not measured:
            found[money[0]] = None
        if priced and money and measured <= {*money, *dates}:  # else they are unaccounted for
            for word in (
                priced & wording.OPERATION_WORDS
                if wording.NO_FIGURE.search(self._asked)
                else priced
            ):
                self._left.pop(word, None)
        if wording.DATED & asked and len(dates) == 1 and not measured:
            found[dates[0]] = None
        if not found and wording.HOW_MUCH.search(self._asked) and len(money) == 1:
            found[money[0]] = None
        return list(found)

    def _money(self, *, spent: bool) -> list[int]:
        """The columns of money; of money that is `spent`, not of prices of which it may be one."""
        named = {c: set(parts_of(self._table.columns[c])) for c in self._table.numeric}
        if spent:
            return sorted(
                c
                for c, each in named.items()
                if each & wording.AMOUNTS and not each & wording.APIECE
            )
        return sorted(c for c, each in named.items() if each & wording.MONEY)

    def _measure(self, named: Sequence[int], *, dated: bool) -> list[int]:
        """The column that an extreme is of: a named one, or the only one of numbers or of dates."""
        if dated:
            possible = self._dates()
        else:
            numeric = sorted(self._table.numeric)
            possible = [c for c in numeric if c in named or c or not self._table.is_a_key(c)]
        chosen = [column for column in named if column in possible]
        if chosen or dated or len(possible) == 1:
            return chosen or possible
        return [column for column in named if column not in self._table.named][:1]

    def _signed(self, columns: Sequence[int]) -> bool:
        """Whether one has numbers below 0, and no name that says that they are prices."""
        unsaid = (c for c in columns if not wording.PRICED & set(parts_of(self._table.columns[c])))
        return any(value and value < 0 for c in unsaid for value in self._table.held[c].values)

    def _dates(self) -> list[int]:
        """The columns of dates, even those whose order of day and month is undecided."""
        return [n for n, c in enumerate(self._table.held) if c.holds is Holds.DATES or c.dated]

    def _narrowed(self, conditions: list[Condition]) -> list[Condition]:
        """The conditions, and of the rows they leave those whose cells have the words left over.

        "The brass bell" is "Bell, brass" and not "Bell, steel".
        """
        table = self._table
        for word in self._unaccounted() if conditions else ():
            equal = [each for each in conditions if each.relation == "IN"]
            rows = [row for row in table.rows if all(row[e.column] in e.values for e in equal)]
            having = {
                column: cells
                for column in range(len(table.columns))
                if column not in table.numeric
                and (cells := {row[column] for row in rows if has_word(row[column], word)})
            }
            if len(having) == 1:
                ((column, cells),) = having.items()
                conditions = [each for each in conditions if each.column != column]
                conditions.append(Condition(column, "IN", tuple(sorted(cells))))
                del self._left[word]
        return conditions

    def _unaccounted(self) -> Sequence[str]:
        """The words of the question that may be about anything else."""
        rows = {found[1].lower() for found in wording.ROW.finditer(self._asked)}
        nouns = [word for word in self._title if word.isalpha()][-1:]  # of a title, the last one
        known = self._known - set(self._title) | set(nouns) | wording.PLAIN | wording.ROWS
        return [
            word
            for word in self._left
            if not any(alike(word, each) for each in (known if word in rows else self._known))
        ]
