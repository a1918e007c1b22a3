"""Ten tables of made-up rows, and questions whose answers a plain loop over the rows knows."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass

from app.documents.readers.data import csv_rows
from app.documents.readers.grid import table_lines
from app.documents.tables.records import Table, tables_in

KINDS = {
    "stores.csv": ("store", "store_id:S", "city:place", "manager:person", "revenue_eur:n"),
    "bicycles.csv": ("bicycle", "model:BX", "colour:colour", "price_eur:n", "weight_kg:d"),
    "staff.csv": ("employee", "employee_id:E", "name:person", "department:part", "salary:n"),
    "rooms.csv": ("room", "room:R", "building:place", "seats:n", "floor:n"),
    "invoices.csv": ("invoice", "invoice:INV", "customer:person", "status:status", "amount:d"),
    "plants.csv": ("plant", "code:P", "colour:colour", "height_cm:n", "supplier:person"),
    "flights.csv": ("flight", "flight:LX", "destination:place", "passengers:n", "gate:status"),
    "parts.csv": ("part", "part:K", "material:part", "stock:n", "unit_price:d"),
    "courses.csv": ("course", "course_id:C", "teacher:person", "subject:part", "students:n"),
    "boats.csv": ("boat", "boat:B", "harbour:place", "length_m:d", "crew:n"),
}
WORDS = {
    "place": ["Lyon", "Turin", "Bergen", "Porto", "Graz"],
    "person": ["Ada Brandt", "Luis Ferro", "Mia Okafor", "Tom Reed", "Eva Lind", "Jan Novak"],
    "colour": ["red", "green", "blue", "white"],
    "part": ["steel", "history", "logistics", "biology", "design"],
    "status": ["open", "paid", "late"],
}


@dataclass(frozen=True)
class Asked:
    """A question, and of its answer: keys of exactly these rows, and what it says besides."""

    question: str
    keys: frozenset[str]
    says: str = ""


@dataclass(frozen=True)
class Made:
    """A table as a document has it, and what can be asked of it."""

    title: str
    keys: tuple[str, ...]
    table: Table
    answerable: tuple[Asked, ...]
    unanswerable: tuple[str, ...]


def tables(seed: int = 5) -> Iterator[Made]:
    """All ten, the same for a seed."""
    chance = random.Random(seed)
    for title, (noun, *columns) in KINDS.items():
        yield _made(chance, title, noun, columns)


def _made(chance: random.Random, title: str, noun: str, columns: list[str]) -> Made:
    names = [column.split(":")[0] for column in columns]
    kinds = [column.split(":")[1] for column in columns]
    numbers = chance.sample(range(100, 999), 14)
    cells = [
        [_cell(chance, kind, at) for at, kind in enumerate(kinds) if at]
        for _ in range(len(numbers))
    ]
    table = [[f"{kinds[0]}{n}", *row] for n, row in zip(numbers, cells, strict=True)]
    out = io.StringIO()
    csv.writer(out).writerows([names, *table])
    (read,) = tables_in("\n".join(table_lines(csv_rows(out.getvalue(), named=True) or [])))
    keys = tuple(row[0] for row in table)
    return Made(
        title,
        keys,
        read,
        tuple(_questions(chance, noun, names, kinds, table)),
        tuple(_misses(noun, names, kinds)),
    )


def _cell(chance: random.Random, kind: str, at: int) -> str:
    if kind == "n":
        return str(chance.randrange(2, 40) * 10 ** (at - 1))
    if kind == "d":
        return f"{chance.uniform(1, 90):.2f}"
    return chance.choice(WORDS[kind])


def _questions(
    chance: random.Random, noun: str, names: list[str], kinds: list[str], table: list[list[str]]
) -> Iterator[Asked]:
    number = next(at for at, kind in enumerate(kinds) if kind in ("n", "d"))
    words = next(at for at, kind in enumerate(kinds) if at and kind not in ("n", "d"))
    for at, name in enumerate(names):
        for row in chance.sample(table, 3) if at else []:
            spoken = name.removesuffix("_eur").removesuffix("_kg").removesuffix("_cm")
            spoken = spoken.removesuffix("_m").replace("_", " ")
            ask = chance.choice(("What is the {} of {}?", "{1}: {0}?", "Tell me the {} of {}."))
            yield Asked(ask.format(spoken, row[0]), frozenset({row[0]}), f"{name}: {row[at]}")
    spoken = names[number].split("_")[0]
    # A value of a column in words, and the rows that have it.
    for value in sorted({row[words] for row in table})[:3]:
        having = [row for row in table if row[words] == value]
        keys = frozenset(row[0] for row in having)
        amounts = [float(row[number]) for row in having]
        if len(keys) <= 8:
            yield Asked(f"Which {noun}s have the {names[words]} {value}?", keys)
            yield Asked(f"How many {noun}s have the {names[words]} {value}?", keys, f"{len(keys)} ")
        most = frozenset(row[0] for row in having if float(row[number]) == max(amounts))
        yield Asked(f"Which {noun} with {names[words]} {value} has the highest {spoken}?", most)
    for which, pick in (("highest", max), ("lowest", min)):
        best = pick(float(row[number]) for row in table)
        keys = frozenset(row[0] for row in table if float(row[number]) == best)
        yield Asked(f"Which {noun} has the {which} {spoken}?", keys)
    bar = sorted(float(row[number]) for row in table)[-4]
    keys = frozenset(row[0] for row in table if float(row[number]) > bar)
    yield Asked(f"Which {noun}s have a {spoken} over {bar:g}?", keys)
    total = sum(float(row[number]) for row in table)
    marked = "," if kinds[number] == "d" else ""  # a column without marks gets none
    yield Asked(
        f"What is the total {spoken}?", frozenset(), f"{total:{marked}.2f}".rstrip("0").rstrip(".")
    )
    mean = total / len(table)
    yield Asked(
        f"What is the average {spoken}?", frozenset(), f"{mean:{marked}.2f}".rstrip("0").rstrip(".")
    )
    one, other = (row[0] for row in chance.sample(table, 2))
    yield Asked(f"Compare {one} and {other}.", frozenset({one, other}))


def _misses(noun: str, names: list[str], kinds: list[str]) -> Iterator[str]:
    """Of rows, columns and values that the table does not have, and of another subject."""
    yield f"What is the {names[-1].split('_')[0]} of {kinds[0]}1000?"
    yield f"Which {noun}s are in Helsinki?"
    yield f"What is the insurance number of {kinds[0]}1000?"
    yield f"Who invented the {noun}?"
    yield f"When was the first {noun} repaired?"
