"""What a table answers is right, cell by cell; what it does not hold, it declines.

Covers `app.documents.tables.question`, `app.documents.tables.wording` and
`app.documents.tables.naming`.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3

import pytest

from app.documents.tables.answer import answer
from app.documents.tables.records import tables_in
from harness.services import ROOT
from tests.app.documents.tables.generated import Asked, Made, tables

LISTED = 8
MADE = [made for seed in (5, 6) for made in tables(seed)]


def right(asked: Asked, text: str, made: Made) -> bool:
    named = {key for key in made.keys if re.search(rf"\b{key}\b", text)}
    return (not asked.keys or named == asked.keys) and asked.says in text


def test_no_answer_is_wrong_and_few_are_missing() -> None:
    asked = [(made, each) for made in MADE for each in made.answerable]
    assert len(asked) >= 300
    missing = []
    for made, each in asked:
        found = answer(each.question, made.table, made.title)
        if found is None:
            missing.append((made.title, each.question))
        else:
            assert right(each, found.text, made), (each, found)
    assert len(missing) <= 0.05 * len(asked), missing


def test_what_a_table_does_not_hold_is_declined() -> None:
    for made in MADE:
        for question in made.unanswerable:
            assert answer(question, made.table, made.title) is None, (made.title, question)


def said(lines: str, question: str, title: str) -> str | None:
    """What the table of these lines answers."""
    (table,) = tables_in(lines)
    found = answer(question, table, title)
    return found.text if found else None


def says(lines: str, question: str, title: str, part: str | None) -> bool:
    """Whether it answers with this, or not at all."""
    text = said(lines, question, title)
    return text is None if part is None else part in (text or "")


STORES = """id: S1; city: Lyon; manager: Ada Brandt; revenue_eur: 5,000; opened: 2019-05-01
id: S2; city: Turin; manager: Tom Reed; revenue_eur: 7,500; opened: 2021-03-09
id: S3; city: Lyon; manager: Tom Reed; opened: 2020-01-01
"""


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("what's S2's revenue", "S2, Turin, revenue_eur: 7,500"),
        ("Who manages the store in Turin?", "S2, Turin, manager: Tom Reed"),
        (
            "Who made the revenue of S2?",
            "id: S2; city: Turin; manager: Tom Reed; revenue_eur: 7,500; opened: 2021-03-09",
        ),
        ("Where was the revenue of S2 made?", None),
        ("What is the revenue of S3?", "S3, Lyon, revenue_eur: not given"),
        ("How many stores are there?", "3 rows of stores.csv"),
        ("How many stores does Tom Reed manage?", "2 rows of stores.csv: S2, Turin; S3, Lyon"),
        ("Is there a store in Turin?", "id: S2; city: Turin; manager: Tom Reed; "
         "revenue_eur: 7,500; opened: 2021-03-09"),
        ("Which store was the latest to open?", "id: S2; city: Turin; manager: Tom Reed; "
         "revenue_eur: 7,500; opened: 2021-03-09 (the highest opened)"),
        ("total revenue?", "revenue_eur in all: 12,500 (S1: 5,000; S2: 7,500; S3: not given)"),
        ("Which place has the highest revenue?", "id: S2; city: Turin; manager: Tom Reed; "
         "revenue_eur: 7,500; opened: 2021-03-09 (the highest revenue_eur)"),
        ("How much was the store in Turin?", "S2, Turin, revenue_eur: 7,500"),
        # What no query expresses, or another subject.
        ("Which stores are not in Lyon?", None),
        ("Which store has the second highest revenue?", None),
        ("How many stores isn't Tom Reed managing?", None),
        ("What is the number of parking spaces of S1?", None),
        ("Who wrote Don Quixote?", None),
        ("Which is the most expensive hotel in Lyon?", None),
        ("Which store in Berlin has the highest revenue?", None),
    ],
)  # fmt: skip
def test_in_plain_words(question: str, text: str | None) -> None:
    assert said(STORES, question, "stores.csv") == text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("how much was the revenue", "S2, Turin, revenue_eur: 7,500"),
        ("and the manager?", "S2, Turin, manager: Tom Reed"),
        ("how was the revenue made", None),
        ("And the revenue of S1?", "S1, Lyon, revenue_eur: 5,000"),
        ("How many stores are there?", "3 rows of stores.csv"),
        ("What is the revenue of the warehouse?", None),
        ("Who pays?", None),
    ],
)
def test_a_follow_up_that_names_no_row_is_about_the_one_that_was_said(
    question: str, text: str | None
) -> None:
    (table,) = tables_in(STORES)
    found = answer(question, table, "stores.csv", table.row_at(STORES.index("S2")))
    assert (found and found.text) == text


SENT = """order: O1; customer: Meyer; total: 40; delivered: 2025-01-03; note: total to follow
order: O2; customer: Roth; total: 30; delivered: 2025-01-09; note: none
order: O3; customer: Meyer; total: 20; delivered: open; note: none
order: O4; customer: Roth; total: 25; note: paid
"""
WORDED = SENT.replace("total: ", "total: see ")


@pytest.mark.parametrize(
    ("lines", "question", "part"),
    [
        (SENT, "How many orders were delivered?", "2 rows of orders.csv: O1, Meyer; O2, Roth"),
        (SENT, "How many orders are there?", "4 rows"),
        (SENT, "How many orders were delivered since 5 January?", "1 row of orders.csv: O2, Roth"),
        (SENT, "Which order has the highest total?", "order: O1"),
        (SENT, "Which customer has the highest total?", None),
        (SENT, "What is the total value of the total of Meyer?", None),
        (SENT, "What is the sum of the totals?", "total in all: 115"),
        (WORDED, "Which customer has the highest total?", None),
        (WORDED, "What is the sum of all orders?", None),
    ],
)
def test_only_what_is_there_is_counted_and_only_numbers_are_summed(
    lines: str, question: str, part: str | None
) -> None:
    assert says(lines, question, "orders.csv", part), said(lines, question, "orders.csv")


BOOKED = """day: 2026-03-30; payee: Stadtwerke; amount: -84.50
day: 2026-03-27; payee: Jana; amount: 2940.17
day: 2026-03-05; payee: Wohnbau; amount: -1050.00
"""


@pytest.mark.parametrize(
    "question", ["What is the largest expense?", "total cost?", "How much did we spend in March?"]
)
def test_on_which_side_of_zero_expenses_stand_is_not_guessed(question: str) -> None:
    assert said(BOOKED, question, "account.csv") is None


HIRE = """Boat: Heron; Spring Hours: 14; Spring Fee: 210; Autumn Hours: 9; Autumn Fee: 135
Boat: Kestrel; Spring Hours: 6; Spring Fee: 90; Autumn Hours: 22; Autumn Fee: 330
"""


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How many hours was Kestrel hired in autumn?", "Kestrel, Autumn Hours: 22"),
        ("Which boat had the most hours in spring?", "Heron"),
        ("How many for Kestrel in autumn?", None),
    ],
)
def test_one_of_several_columns_is_meant_or_none(question: str, text: str | None) -> None:
    assert says(HIRE, question, "boat-hire.ods", text)


RECEIPTS = """id: E1; vendor: Norrail; receipt: yes
id: E2; vendor: Rode Taxi; receipt: no
id: E3; vendor: De Zwaan; receipt: yes
"""


PROPS = """id: P1; thing: globe; kind: prop; quantity: 1; value_eur: 85; work: case fixed; by: Al
id: P2; thing: cloak; kind: costume; quantity: 6; value_eur: 30; work: hem sewn; by: Tom
id: P3; thing: crown; kind: costume; quantity: 2; value_eur: 120; work: gold painted; by: Mia
"""


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("How many of the entries are costumes?", "2 rows of props.csv: P2, cloak; P3, crown"),
        ("Who fixed the case?", "by: Al"),
        ("Which thing on the list is worth the most?", "thing: crown"),
        ("How many of them are wigs?", None),
    ],
)
def test_cells_are_named_in_other_forms(question: str, part: str | None) -> None:
    assert says(PROPS, question, "props.csv", part)


TALKS = """talk: Art; day: Day 1; place: Room 2; speaker: Bob
talk: Law; day: Day 2; place: Room 1; speaker: Cid
talk: Rye; day: Day 2; place: Room 2; speaker: Tom Hill
talk: Rye bread; day: on call; place: Room 3; speaker: Ann Reed
talk: Wheat; day: Day 3; place: Room 3; speaker: Ann Hill
"""


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who is the speaker in room 1 on day 2?", "Law, Day 2, speaker: Cid"),
        ("What is the place of Tom Hill and of Ann Reed?",
         "Rye, Day 2, place: Room 2; Rye bread, on call, place: Room 3"),
        ("What is the place of wheat and of rye bread?",
         "Rye bread, on call, place: Room 3; Wheat, Day 3, place: Room 3"),
        ("Which talk is on the call list?", None),
    ],
)  # fmt: skip
def test_cells_that_share_words_are_told_apart(question: str, text: str | None) -> None:
    assert said(TALKS, question, "talks.csv") == text


def test_rows_that_say_yes_are_counted() -> None:
    for counted in ("expenses", "of the expenses"):
        question = f"How many {counted} have a receipt?"
        expected = "2 rows of expenses.csv: E1, Norrail; E3, De Zwaan"
        assert said(RECEIPTS, question, "expenses.csv") == expected
    cell = said(RECEIPTS, "Does Rode Taxi have a receipt?", "expenses.csv")
    assert cell == "E2, Rode Taxi, receipt: no"


def test_the_query_shown_is_one_that_runs() -> None:
    """Names and values in it are quoted, whatever they hold."""
    text = 'name: O\'Hara; "net" shifts: 4\nname: Bob; "net" shifts: 5\n'
    (table,) = tables_in(text)
    found = answer("What are the total shifts of O'Hara and Bob?", table, 'a"b.csv')
    assert found is not None
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE "a""b.csv" ("name", """net"" shifts")')
    database.executemany('INSERT INTO "a""b.csv" VALUES (?, ?)', [("O'Hara", 4), ("Bob", 5)])
    assert database.execute(found.query).fetchall() == [(9,)]
    database.close()


TRADE = """no: T1; thing: Bell, brass; keeper: Mia Reed; tel. ext.: 14; place: Hull Museum
no: T2; thing: Bell, steel; keeper: Tom Lind; tel. ext.: 17; place: Leith
no: T3; thing: Rope; keeper: Tom Lind; tel. ext.: 17; place: Leith
"""


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who is the keeper of the brass bell?", "T1, Bell, brass, keeper: Mia Reed"),
        ("And the keeper of the steel bell?", "T2, Bell, steel, keeper: Tom Lind"),
        ("What is the extension of Mia Reed?", "T1, Bell, brass, tel. ext.: 14"),
        ("Who is the keeper of the wooden bell?", None),
        ("What is the population of Hull?", None),
        ("Who is Mia's sister?", None),
        ("What is Tom Lind's shoe size?", None),
        ("Who rang the brass bell?", None),
        ("Who is the mayor of Leith?", None),
        ("What is a rope ladder?", None),
    ],
)
def test_each_word_must_be_one_of_the_rows_that_answer(question: str, text: str | None) -> None:
    assert said(TRADE, question, "museum.csv") == text


GARDEN = """no: 1; kind: Garden; what: Spade; amount: 30.00; paid by: Ada
no: 2; kind: House; what: Curtain rail; amount: 45.50; paid by: Ben
no: 3; kind: Garden; what: Rake; amount: 12.00; paid by: Ben
no: 4; kind: Car; what: Tyre; amount: 61.00; paid by: Ada
"""
SHELF = """code: L1; lamp: Arc; unit price: 30; stock: 4; delivered: 2024-03-02
code: L2; lamp: Dome; unit price: 45; stock: 9; delivered: 2024-05-06
code: L3; lamp: Cone; unit price: 61; stock: 2; delivered: 2024-05-06
"""


KEPT = """code: L1; lamp: Arc; on hand: 4; Min. stock: 7; days: 9
code: L2; lamp: Dome; on hand: 9; Min. stock: 6; days: 4
"""


@pytest.mark.parametrize(
    ("lines", "question", "title", "part"),
    [
        # An amount is spent; what one piece costs is not, and a stock is no money.
        (SHELF, "What did we spend in May 2024?", "lamps.csv", None),
        (SHELF, "How much was spent on the Dome?", "lamps.csv", None),
        (SHELF, "What does the Dome cost?", "lamps.csv", "unit price: 45"),
        (SHELF, "What does the stock of Arc cost?", "lamps.csv", None),
        (GARDEN, "How much was spent on the rake?", "garden_costs.csv", "amount: 12.00"),
        (TALKS, "What did Art cost?", "talks.csv", None),
        (TALKS, "Who is the cheapest speaker?", "talks.csv", None),
        # Words of a title are no cell.
        (GARDEN, "What is the total of the garden costs?", "garden_costs.csv", "in all: 148.5 ("),
        (GARDEN, "What is the total cost of the garden?", "garden_costs.csv", "in all: 42 ("),
        (GARDEN, "Which of the garden costs was the highest?", "garden_costs.csv", "Tyre"),
        # What is extreme, summed or counted must be something of the table.
        (GARDEN, "Which do we have the fewest of?", "garden_costs.csv", None),
        (GARDEN, "What is the most expensive?", "garden_costs.csv", None),
        (GARDEN, "How many painters did Ada pay?", "garden_costs.csv", None),
        (GARDEN, "How many gardeners are there?", "receipts.csv", None),
        (GARDEN, "Which plumber has the highest amount?", "garden_costs.csv", None),
        (GARDEN, "Which has the highest amount?", "garden_costs.csv", "Tyre"),
        (GARDEN, "Which kind is the most expensive?", "garden_costs.csv", None),
        (GARDEN, "How many gardens are there?", "garden_tools.csv", "2 rows"),
        (SHELF, "Which lamp has the highest unit price?", "lamps.csv", "Cone"),
        (SHELF, "Which lamp is the cheapest?", "lamp_shop.csv", "Arc"),
        (SHELF, "Which shade is the most expensive?", "lamp_shade_shop.csv", None),
        (SHELF, "How many shades are there?", "shade_shop.csv", None),
        (SHELF, "What is the total unit price?", "lamps.csv", None),
        (SHELF, "What is the total stock of lamps?", "lamps.csv", "stock in all: 15"),
        (KEPT, "Which lamp has the lowest stock?", "lamps.csv", None),
        (KEPT, "Which lamp has the minimum stock?", "lamps.csv", None),
        (KEPT, "What is the minimum stock of Arc?", "lamps.csv", "L1, Arc, Min. stock: 7"),
        (KEPT, "Which is the latest lamp?", "lamps.csv", None),
        (GARDEN, "How many rows are there?", "garden_costs.csv", "4 rows"),
    ],
)
def test_what_is_asked_for_is_known_to_the_table(
    lines: str, question: str, title: str, part: str | None
) -> None:
    assert says(lines, question, title, part), said(lines, question, title)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How much did Ben spend?", "amount in all: 57.5 (2: 45.50; 3: 12.00)"),
        ("How much did Ben spend on the garden?", "3, Garden, amount: 12.00"),
        ("What did we pay for the garden?", "amount in all: 42 (1: 30.00; 3: 12.00)"),
        ("On which kind did we spend the most?",
         "Car, amount in all: 61 (the highest of 3 by kind)"),
        ("Which kind has the lowest total amount?",
         "Garden, amount in all: 42 (the lowest of 3 by kind)"),
        ("Who paid the most?", "Ada, amount in all: 91 (the highest of 2)"),
        ("Who paid the least for the garden?",
         "Ben, amount in all: 12 (the lowest of 2)"),
        ("Who paid the largest amount?", "no: 4; kind: Car; what: Tyre; amount: 61.00; paid by: Ada"
         " (the highest amount)"),
        ("What did we spend the most on?", None),
        ("Which kind has the highest average amount?",
         "Car, amount on average: 61 (the highest of 3 by kind)"),
        ("How much did we spend?", None),
        ("When did Ada pay?", None),
        ("Did Ada pay?", None),
        ("What did Ada pay with?", None),
        ("How much did Ada pay Ben?", None),
        ("How much did we pay Ben?", None),
        ("Who was paid the most?", None),
        ("Who paid the most for a single thing?", None),
        ("Which kind has the most costs?", None),
        ("How much can Ada spend?", None),
        ("How much will we spend on the garden?", None),
        ("How much did each of us spend on the garden?", None),
        ("What did we spend from January to March?", None),
        ("What did we spend on the garden before March?", None),
    ],
)  # fmt: skip
def test_what_was_spent_is_summed(question: str, text: str | None) -> None:
    assert said(GARDEN, question, "costs.csv") == text


def test_no_sum_of_a_group_is_wrong() -> None:
    chance = random.Random(3)
    for _ in range(60):
        rows = [(chance.choice("ABC"), chance.choice("XY"), chance.randrange(1, 30) * 5)
                for _ in range(12)]  # fmt: skip
        lines = "".join(
            f"no: {n}; shop: Shop {shop}; payer: Payer {payer}; amount: {amount}\n"
            for n, (shop, payer, amount) in enumerate(rows)
        )
        for payer in ("", "X"):
            sums: dict[str, int] = {}
            for shop, by, amount in rows:
                if by == (payer or by):
                    sums[shop] = sums.get(shop, 0) + amount
            asked = f" for Payer {payer}" if payer else ""
            found = said(lines, f"At which shop was the most spent{asked}?", "log.csv")
            if len(sums) > 1:
                best = max(sums.values())
                shops = "; ".join(f"Shop {each}" for each in sums if sums[each] == best)
                total = f"{shops}, amount in all: {best} (the highest of {len(sums)} by shop)"
                assert found is not None
                assert sorted(found.split(", ")[0].split("; ")) == sorted(shops.split("; "))
                assert found.split(", ", 1)[1] == total.split(", ", 1)[1]
            else:
                assert found is None


COURSES = """code: C1; course: Pottery; teacher: Ada Brandt; fee: 145; places: 3
code: C2; course: Bookbinding; teacher: Tom Reed; fee: 75; places: 0
code: C3; course: Life drawing; teacher: Mia Lund; fee: 180; places: 9
"""


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Which course is the cheapest?", "Bookbinding"),
        ("Which is the most expensive course?", "Life drawing"),
        ("Which courses cost less than 100?", "Bookbinding"),
        ("Which course is the longest?", None),
        ("Which course has the lowest teacher?", "column teacher"),
    ],
)
def test_what_a_row_is_called_is_not_what_is_compared(question: str, named: str | None) -> None:
    assert says(COURSES, question, "courses.csv", named)


BRANCHES = """id: A; Filiale: Lyon; Umsatz: 5.000; Umsatz netto: 4.200
id: B; Filiale: Turin (ohne Lager); Umsatz: 7.500; Umsatz netto: 6.300
"""


@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_what_the_page_offers_to_ask_of_a_cell(language: str) -> None:
    texts = json.loads((ROOT / "static" / "text" / f"{language}.json").read_text("utf-8"))
    for row, sales in {"Lyon": "5.000", "Turin (ohne Lager)": "7.500"}.items():
        asked = texts["suggest.cell"].format(row=row, column="umsatz")
        found = said(BRANCHES, asked, "filialen.csv") or ""
        assert found.endswith(f"{row}, Umsatz: {sales}"), asked
    elsewhere = texts["suggest.cell"].format(row="Genf", column="umsatz")
    assert said(BRANCHES, elsewhere, "filialen.csv") is None


@pytest.mark.parametrize(
    ("language", "column"),
    [("en", "Size"), ("de", "Preis unter Vertrag"), ("es", "Fecha de nacimiento")],
)
def test_a_column_may_have_the_words_of_the_wording(language: str, column: str) -> None:
    texts = json.loads((ROOT / "static" / "text" / f"{language}.json").read_text("utf-8"))
    people = f"Name: Luis; {column}: 1990; Code: 7\nName: Ana; {column}: 1985; Code: 9"
    named = texts["suggest.cell"].format(row="Luis", column=column.lower())
    assert (said(people, named, "people.csv") or "").endswith(f"Luis, {column}: 1990")
    by_code = texts["suggest.cell"].format(row="7", column=column.lower())
    assert said(people, by_code, "people.csv") is None
