"""What the columns and rows of a table are, and which columns a question asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from app.documents.tables import wording
from app.documents.tables.columns import Holds
from app.documents.tables.naming import Words, named_by, parts_of
from app.documents.tables.records import Table
from dragon.retrieval.lexical import stem, words


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


def asked_for(asked: set[str], left: Words, table: Table) -> list[int]:
    """Columns that a question names, or that hold the prices or dates it asks for."""
    found = dict.fromkeys(_named(left, table))
    names = [table.columns[column] for column in found]
    left.take([w for w in left.left if any(named_by(w, name) for name in names)])
    for said, meant in wording.SYNONYMS:
        columns = [c for c, name in enumerate(table.columns) if meant & set(parts_of(name))]
        if len(columns) == 1 and (others := said & left.left.keys()):
            left.take(others)
            found[columns[0]] = None
    kind = wording.KIND.search(left.text)
    if kind and wording.COUNTS.match(kind[0]) and not wording.AMOUNT.search(left.text):
        asked = asked - {kind[1].lower()}  # "how many expenses": they are counted
    days, much = dates(table), wording.HOW_MUCH.search(left.text)
    paid = money(table, spent=bool(wording.SPENT & asked))
    measured = found.keys() & table.numeric.union(days)
    if not much:  # "who has paid" asks for no money
        asked = {word for word in asked if not any(named_by(word, name) for name in names)}
    priced = {word for word in asked if {word, stem(word)} & wording.PRICED}
    # "Which course is the cheapest?" names what a row is, not what is compared.
    if priced and len(paid) == 1 and not measured:
        found[paid[0]] = None
    if priced and paid and measured <= {*paid, *days}:  # else they are unaccounted for
        figure = not wording.NO_FIGURE.search(left.text)
        left.take(priced if figure else priced & wording.OPERATION_WORDS)
    if wording.DATED & asked and len(days) == 1 and not measured:
        found[days[0]] = None
    if not found and much and much[1] not in left.cells and len(paid) == 1:
        found[paid[0]] = None
    return list(found)


def _named(left: Words, table: Table) -> list[int]:
    """The columns that words are of, of two the one that more are of."""
    hits: dict[int, set[str]] = {}
    limits = wording.LIMITS & set(words(left.text))
    for column, name in enumerate(table.columns):
        parts = [each for each in parts_of(name) if each not in wording.UNITS or each in left.left]
        parts = parts or parts_of(name)
        if wording.LIMITS & set(parts) and not any(named_by(w, name, parts) for w in limits):
            continue  # the stock is not "Min. stock"
        hits[column] = {w for w in left.left if named_by(w, name, parts)}
    # "Costs 2024" is named more closely by "the costs in 2024" than "Costs 2025" is.
    return [c for c, hit in hits.items() if hit and not any(hit < o for o in hits.values())]


def compared(named: Sequence[int], table: Table, *, dated: bool) -> list[int]:
    """The column that an extreme is of: a named one, or the only one of numbers or of dates."""
    numbers = [c for c in sorted(table.numeric) if c in named or c or not table.is_a_key(c)]
    possible = dates(table) if dated else numbers
    chosen = [column for column in named if column in possible]
    if chosen or dated or len(possible) == 1:
        return chosen or possible
    return [column for column in named if column not in {*table.named, *dates(table)}][:1]
