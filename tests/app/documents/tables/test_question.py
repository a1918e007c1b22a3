"""Each kind of question that a table answers, of two or three tables, and its like that none does.

Covers `app.documents.tables.conditions`, `app.documents.tables.query` and
`app.documents.tables.roles`.
"""

from __future__ import annotations

import random
import sqlite3

import pandas as pd
import pytest

from app.documents.tables.answer import answer, following
from app.documents.tables.records import tables_in

TABLES = {
    "pantry.csv": """
code: K1; article: Flour; shelf: Dry; in stock: 4; minimum stock: 6; price: 1.20
code: K2; article: Rice; shelf: Dry; in stock: 9; minimum stock: 5; price: 2.40
code: K3; article: Oil; shelf: Cold; in stock: 2; minimum stock: 3; price: 6.00
code: K4; article: Salt; shelf: Dry; in stock: 3; minimum stock: 3; price: 0.80
""",
    "bins.csv": """
product: Nut; stock: 4; min stock: 6
product: Bolt; stock: 9; min stock: 5
""",
    "trips.csv": """
no: 1; from: Lyon; to: Paris; price: 30
no: 2; from: Paris; to: Lyon; price: 40
no: 3; from: Lyon; to: Nice; price: 50
""",
    "works.csv": """
work: Roof; lead: Ada Lund; budget: 900; spent: 1200; due: 2024-03-01; done: 2024-02-20
work: Porch; lead: Tom Reed; budget: 500; spent: 450; due: 2024-04-01; done: 2024-05-09
work: Fence; lead: Ada Lund; budget: 700; spent: 700; due: 2024-06-01; done: 2024-06-01
""",
    "costs.csv": """
date: 2025-01-04; kind: Food; what: Market; paid by: Ada; amount: 84.20
date: 2025-01-11; kind: Cinema; what: Tickets; paid by: Max; amount: 36.50
date: 2025-02-20; kind: Food; what: Bakery; paid by: April; amount: 41.75
date: 2025-03-01; kind: Food; what: Market; paid by: Max; amount: 77.45
date: Total; amount: 239.90
""",
    "crew.csv": """
name: Max Hill; department: Deck; salary: 3100; office: Hull; born: 1990-05-03
name: May Ross; department: Galley; salary: 2500; office: Hull; born: 1988-11-20
name: Will Dean; department: Deck; salary: 2900; office: Leith; born: 1979-05-30
""",
    "orders.csv": """
order: O1; customer: Meyer; product: Lamp; quantity: 2; ordered: 2025-01-03
order: O2; customer: Dupont; product: Desk; quantity: 1; ordered: 2025-01-09
order: O3; customer: Meyer; product: Lamp; quantity: 5; ordered: 2025-02-02
""",
    "league.csv": """
player: Ann; team: Red; goals: 5
player: Bob; team: Red; goals: 9
player: Cid; team: Blue; goals: 3
""",
    "visits.csv": """
date: 2025-01-04; client: Meyer; hours: 20
date: 2025-01-11; client: Meyer; hours: 20
date: 2025-02-20; client: Roth; hours: 40
""",
    "konto.csv": """
Tag: 03.03.2025; Name: Stadtwerke; Betrag: -84,30
Tag: 05.03.2025; Name: Rewe; Betrag: -1.050,00
Tag: 12.03.2025; Name: Rewe; Betrag: -41,07
Tag: 27.03.2025; Name: Muster AG; Betrag: 2.940,17
""",
}


def said(title: str, question: str) -> str | None:
    (table,) = tables_in(TABLES[title])
    found = answer(question, table, title)
    return found and found.text


@pytest.mark.parametrize(
    ("title", "question", "text"),
    [
        ("pantry.csv", "Which articles are below their minimum stock?", "2 rows: "
         "K1, Flour (in stock: 4, minimum stock: 6); K3, Oil (in stock: 2, minimum stock: 3)"),
        ("pantry.csv", "How many articles are below the minimum?", "2 rows of pantry.csv: K1, Flour"
         "; K3, Oil"),
        ("pantry.csv", "Which article has more in stock than the minimum?", "code: K2; article: "
         "Rice; shelf: Dry; in stock: 9; minimum stock: 5; price: 2.40"),
        ("works.csv", "Which works are over budget?", "work: Roof; lead: Ada Lund; budget: 900; "
         "spent: 1200; due: 2024-03-01; done: 2024-02-20"),
        ("works.csv", "Which works spent at least their budget?", "2 rows: Roof, Ada Lund "
         "(spent: 1200, budget: 900); Fence, Ada Lund (spent: 700, budget: 700)"),
        ("works.csv", "Which works were done after they were due?", None),
        ("works.csv", "Which works were done later than due?", "work: Porch; lead: Tom Reed; "
         "budget: 500; spent: 450; due: 2024-04-01; done: 2024-05-09"),
        ("works.csv", "How much did we spend over budget?", None),
        ("works.csv", "How much over budget is the roof?", None),
        ("works.csv", "What is the total spent over budget?", None),
        ("works.csv", "How many works on average spent more than their budget?", None),
        ("bins.csv", "Which products have a stock below their minimum stock?",
         "product: Nut; stock: 4; min stock: 6"),
        ("bins.csv", "Which products have a minimum stock above their stock?",
         "product: Nut; stock: 4; min stock: 6"),
        ("bins.csv", "Which product has the lowest stock?",
         "product: Nut; stock: 4; min stock: 6 (the lowest stock)"),
        ("bins.csv", "What is the minimum stock of Nut?", "Nut, min stock: 6"),
        ("bins.csv", "Which product has the lowest minimum stock?",
         "product: Bolt; stock: 9; min stock: 5 (the lowest min stock)"),
        ("works.csv", "Which works are above average?", None),
        ("pantry.csv", "Which articles are below their shelf?", None),
        ("crew.csv", "Who is over budget?", None),
    ],
)  # fmt: skip
def test_columns_are_compared_with_each_other(title: str, question: str, text: str | None) -> None:
    assert said(title, question) == text


@pytest.mark.parametrize(
    ("title", "question", "text"),
    [
        ("costs.csv", "How much did we spend per kind?", "amount in all by kind: Food: 203.4; "
         "Cinema: 36.5 (without the row Total, 239.90)"),
        ("costs.csv", "How much did each person pay?", "amount in all, paid by: Max: 113.95; "
         "Ada: 84.2; April: 41.75 (without the row Total, 239.90)"),
        ("costs.csv", "How many payments were there for each kind?", "rows by kind: Food: 3; "
         "Cinema: 1 (without the row Total)"),
        ("costs.csv", "How many kinds did each person pay for?",
         "number of different values of kind, paid by: Max: 2; Ada: 1; April: 1 (without the row "
         "Total)"),
        ("crew.csv", "average salary by department", "salary on average by department: Deck: 3000; "
         "Galley: 2500"),
        ("crew.csv", "How many people work in each office?", "rows by office: Hull: 2; Leith: 1"),
        ("crew.csv", "Who has the highest salary in each department?", "highest salary by "
         "department: Deck: 3100 (Max Hill, Deck); Galley: 2500 (May Ross, Galley)"),
        ("crew.csv", "Which department has the highest average salary?", "Deck, salary on average: "
         "3000 (the highest of 2 by department)"),
        ("orders.csv", "How many orders did each customer place?", "rows by customer: Meyer: 2; "
         "Dupont: 1"),
        ("costs.csv", "How many payments over 40 euros did each person make?", "rows, paid by: "
         "Ada: 1; April: 1; Max: 1 (without the row Total)"),
        ("orders.csv", "Which customer placed the most orders?", "Meyer, rows: 2 (the highest of 2 "
         "by customer)"),
        ("pantry.csv", "total stock per shelf", "in stock in all by shelf: Dry: 16; Cold: 2"),
        ("konto.csv", "total Betrag by Name", "Betrag in all by Name: Muster AG: 2.940,17; "
         "Stadtwerke: -84,3; Rewe: -1.091,07"),
        # A figure of what is no column, of which two are meant, or that nothing says how to make.
        ("crew.csv", "salary by department", None),
        ("crew.csv", "total salary by department and office", None),
        ("crew.csv", "How many people are there per office and department?", None),
        ("costs.csv", "payments per kind", None),
        ("crew.csv", "average salary by department, office", None),
        ("crew.csv", "average salary by department or office", None),
        ("crew.csv", "average salary by department & office", None),
        ("crew.csv", "average salary by department in each office", None),
        ("crew.csv", "average salary by department and by born", None),
        ("league.csv", "highest goals by team, player", None),
        ("league.csv", "Which player has the most goals in each team?", None),
        ("league.csv", "Which player has the highest goals in each team?", "highest goals by team: "
         "Red: 9 (Bob, Red); Blue: 3 (Cid, Blue)"),
        ("costs.csv", "How much did we spend per kind in each month?", None),
        ("crew.csv", "average salary by ship", None),
        ("orders.csv", "average quantity per order", None),
        ("orders.csv", "How many products did each customer order?", None),
        ("konto.csv", "How much did we spend per Name?", None),
        ("costs.csv", "Who spent the most per kind?", None),
        ("costs.csv", "How much was paid by each of the painters?", None),
    ],
)  # fmt: skip
def test_each_group_has_a_figure(title: str, question: str, text: str | None) -> None:
    assert said(title, question) == text


@pytest.mark.parametrize(
    ("title", "question", "part"),
    [
        ("costs.csv", "How much did we spend on food or on the cinema?", "amount in all: 239.9"),
        ("costs.csv", "How much did Ada, April, or Max pay for food?", "amount in all: 203.4"),
        ("crew.csv", "What is the average salary of Max Hill or Will Dean?", "on average: 3000"),
        ("costs.csv", "How much did we spend on food or in January?", None),
        ("costs.csv", "How much did we spend in January or on food?", None),
        ("costs.csv", "How much did we spend on food or for Max?", None),
        ("costs.csv", "How many payments were over 40 or under 37 euros?", None),
        ("costs.csv", "How many payments were over 40 euros or for food?", None),
        ("costs.csv", "How many payments were for food or the cinema or in January?", None),
    ],
)
def test_alternatives_are_cells_of_one_column(title: str, question: str, part: str | None) -> None:
    text = said(title, question)
    assert text is None if part is None else part in (text or "")


@pytest.mark.parametrize(
    ("title", "question"),
    [
        ("costs.csv", "How much did we spend on all but food?"),
        ("costs.csv", "How much did we spend after the cinema?"),
        ("costs.csv", "How much did we spend between the market and the cinema?"),
        ("crew.csv", "average salary of all but Max"),
        ("crew.csv", "How many people have a salary under Max Hill?"),
        ("crew.csv", "How many people have a salary of at least Max Hill?"),
        ("crew.csv", "How many people have as much salary as Max Hill?"),
        ("crew.csv", "How many people were born after Max?"),
        ("orders.csv", "Which orders were ordered after O2?"),
        ("orders.csv", "Which orders were ordered before O2?"),
    ],
)
def test_what_is_left_out_or_compared_with_a_row_is_declined(title: str, question: str) -> None:
    assert said(title, question) is None


def test_a_word_of_a_cell_or_of_a_column_compares_nothing() -> None:
    lines = (
        "day: D1; film: Under the Sun; price before tax: 7\nday: D2; film: Up; price before tax: 9"
    )
    (table,) = tables_in(lines)
    for question in (
        "But what is the price before tax of D1?",
        "What was the price of Under the Sun?",
    ):
        found = answer(question, table, "films.csv")
        assert found is not None
        assert found.text == "D1, Under the Sun, price before tax: 7"


@pytest.mark.parametrize(
    ("title", "question", "part"),
    [
        ("costs.csv", "Which kinds cost more than 40 euros?", None),
        ("costs.csv", "How many kinds did we spend more than 40 euros on?", None),
        ("costs.csv", "List the kinds with an amount over 40", None),
        ("costs.csv", "Who paid more than 80 euros?", None),
        ("costs.csv", "Which payments were over 80 euros?", "what: Market; paid by: Ada"),
        ("league.csv", "Which team has more than 8 goals?", None),
        ("league.csv", "Which player has more than 8 goals?", "player: Bob"),
        ("league.csv", "Which player has leſs than 5 goals?", "player: Cid"),
        ("league.csv", "Which players have at leaſt 5 goals?", "2 rows: Ann, Red; Bob, Red"),
        ("league.csv", "Which players of the team Red have more than 8 goals?", "player: Bob"),
        ("visits.csv", "Which client has more than 35 hours?", None),
        ("visits.csv", "Who has more than 35 hours?", None),
        ("works.csv", "Who has more than 600 budget?", None),
        ("crew.csv", "Who has a salary over 3000?", "name: Max Hill"),
        ("works.csv", "Which leads are over budget?", None),
    ],
)
def test_no_row_is_compared_where_sums_may_be(title: str, question: str, part: str | None) -> None:
    text = said(title, question)
    assert text is None if part is None else part in (text or "")


def test_cells_that_say_the_same_are_one_group() -> None:
    lines = "no: 1; by: bob; cups: 4\nno: 2; by: Ann; cups: 5\nno: 3; by: Bob; cups: 3\n"
    (table,) = tables_in(lines)
    found = answer("How many cups did each person have?", table, "tea.csv")
    assert found
    assert found.text.endswith(": bob: 7; Ann: 5")
    assert found.query.endswith('GROUP BY LOWER("by") ORDER BY SUM("cups") DESC')


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("total litres by farm", "litres in all by farm: Hill: 9; Dale: 5"),
        ("Which farm has the highest total litres?",
         "Hill, litres in all: 9 (the highest of 2 by farm)"),
    ],
)  # fmt: skip
def test_what_has_no_group_or_no_number_is_told(question: str, text: str) -> None:
    lines = "".join(
        f"no: {no}; farm: {farm}; litres: {litres}\n"
        for no, (farm, litres) in enumerate(
            [("Hill", 4), ("Hill", 5), ("Dale", 5), ("Dale", ""), ("Moor", ""), ("", 7)]
        )
    )
    (table,) = tables_in(lines)
    found = answer(question, table, "milk.csv")
    assert found
    assert found.text == f"{text} (not given: farm in 1 row, litres in 2 rows)"


def test_months_are_groups_in_their_order() -> None:
    assert said("costs.csv", "How much did we spend per month?") == (
        "amount in all by date: 2025-01: 120.7; 2025-02: 41.75; 2025-03: 77.45"
        " (without the row Total, 239.90)"
    )
    assert said("crew.csv", "average salary per month") is None
    assert said("costs.csv", "What did we spend on average per month?") is None


@pytest.mark.parametrize(
    ("title", "turns", "text"),
    [
        ("costs.csv", ["How much did we spend on food in January?", "And on cinema?"],
         "2025-01-11, Cinema, amount: 36.50"),
        ("costs.csv", ["How much did we spend on food in January?", "And on cinema?",
                       "What about food?", "And in March?"], "2025-03-01, Food, amount: 77.45"),
        ("costs.csv", ["How much did Ada pay?", "what about Max?"],
         "amount in all: 113.95 (2025-01-11: 36.50; 2025-03-01: 77.45)"),
        ("costs.csv", ["How much did we spend per kind?", "And in January?"],
         "amount in all by kind: Food: 84.2; Cinema: 36.5"),
        ("crew.csv", ["What is the salary of Max?", "And the office?"], "Max Hill, Deck, "
         "office: Hull"),
        ("crew.csv", ["What is the salary of Will Dean?", "What about Max?"], "Max Hill, Deck, "
         "salary: 3100"),
        ("costs.csv", ["And how much did Ada pay?", "And in January?"], "2025-01-04, Food, "
         "amount: 84.20"),
        # Two questions may be meant, or another one.
        ("costs.csv", ["How much did we spend on food?", "And Max?"], None),
        ("costs.csv", ["How much did we spend on food?", "And on clothes?"], None),
        ("costs.csv", ["How much did we spend on food?", "And why?"], None),
        ("costs.csv", ["How much did we spend on food?", "And all but cinema?"], None),
        ("costs.csv", ["How much did we spend on food?", "And before the cinema?"], None),
        ("costs.csv", ["How much did we spend on food?", "Who is Ada?", "And in March?"], None),
        ("crew.csv", ["What is the salary of Max?", "And is it enough for Will?"], None),
    ],
)  # fmt: skip
def test_a_question_may_change_the_one_before(
    title: str, turns: list[str], text: str | None
) -> None:
    (table,) = tables_in(TABLES[title])
    held: list[tuple[str, str]] = []
    for question in turns[:-1]:
        found = following([*held, (question, "")], table, title) or answer(question, table, title)
        held.append((question, found.text if found else "I found no direct answer."))
    last = following([*held, (turns[-1], "")], table, title)
    left_out = " (without the row Total, 239.90)" if title == "costs.csv" else ""
    assert (last and last.text) == (text and text + left_out)
    elsewhere = [(question, "Something else.") for question, _ in held]
    assert following([*elsewhere, (turns[-1], "")], table, title) is None


def test_what_changes_a_question_is_held_to_what_a_question_is() -> None:
    """Of Salary no sum is that of expenses, and the goals of a team may be those of its players."""
    lines = "".join(
        f"no: {no}; kind: {kind}; paid by: {by}; amount: {amount}\n"
        for no, (kind, by, amount) in enumerate(
            [("Food", "Ada", "-40"), ("Salary", "Ada", "900"), ("Food", "Ben", "-20"),
             ("Salary", "Ben", "800"), ("Salary", "Ben", "-5")]
        )
    )  # fmt: skip
    (table,) = tables_in(lines)
    before = "How much did we spend on food?"
    whole = answer(before, table, "account.csv")
    assert whole is not None
    for asked, text in {
        "And on salary?": None,
        "And each time on food?": None,
        "And for Ben?": None,
        "What about food?": "amount in all: -60 (0: -40; 2: -20)",
    }.items():
        found = following([(before, whole.text), (asked, "")], table, "account.csv")
        assert (found and found.text) == text, asked


def test_a_question_that_changes_none_is_read_by_itself() -> None:
    (table,) = tables_in(TABLES["crew.csv"])
    before = "How many people work in each office?"
    turns = [(before, ""), ("And the salary of Max?", ""), ("What about May?", "")]
    held: list[tuple[str, str]] = []
    for question, _ in turns:
        found = following([*held, (question, "")], table, "crew.csv") or answer(
            question, table, "crew.csv"
        )
        held.append((question, found.text if found else ""))
    assert held[-1][1] == "May Ross, Galley, salary: 2500"


@pytest.mark.parametrize(
    ("title", "question", "part"),
    [
        ("costs.csv", "How many purchases did Max make?", "2 rows"),
        ("costs.csv", "How many kinds did Max pay for?", "2 rows of costs.csv: 2025-01-11"),
        ("costs.csv", "How often did we go to the cinema?", "1 row "),
        ("costs.csv", "How many bills were over 40 euros?", "3 rows"),
        ("costs.csv", "What was the average payment for food?", "amount on average: 67.8"),
        ("costs.csv", "How many orders did Max make?", None),
        ("costs.csv", "How often do we go?", None),
        ("orders.csv", "How many times did Meyer order?", "2 rows"),
        ("costs.csv", "How many times did Max pay?", "2 rows"),
        ("crew.csv", "Who works in Leith?", "name: Will Dean"),
        ("crew.csv", "Who works for Max?", None),
        ("crew.csv", "How many employees are in the department Deck?", "2 rows"),
        ("crew.csv", "How much does May earn?", "salary: 2500"),
        ("crew.csv", "How many payments are there?", None),
        ("pantry.csv", "How many purchases are there?", None),
        # Of what is in stock it asks for that, and not for rows.
        ("pantry.csv", "How much rice do we have?", None),
        ("pantry.csv", "How many Rice do we have?", "K2, Rice, in stock: 9"),
        ("orders.csv", "How many Lamp were sold?", "quantity in all: 7"),
        # A day is not who or what.
        ("orders.csv", "What did Meyer order?", None),
        ("orders.csv", "Who ordered the desk?", None),
        ("orders.csv", "By whom was the desk ordered?", None),
        ("costs.csv", "What did Max pay for?", None),
    ],
)
def test_rows_and_columns_are_known_by_other_words(
    title: str, question: str, part: str | None
) -> None:
    text = said(title, question)
    assert text is None if part is None else part in (text or "")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is the total Betrag?", "Betrag in all: 1.764,8 (03.03.2025: -84,30; 05.03.2025: "
         "-1.050,00; 12.03.2025: -41,07; 27.03.2025: 2.940,17)"),
        ("What did I spend at Rewe?", "Betrag in all: -1.091,07 (05.03.2025: -1.050,00; "
         "12.03.2025: -41,07)"),
        ("What is the total amount for Rewe?", "Betrag in all: -1.091,07 (05.03.2025: -1.050,00; "
         "12.03.2025: -41,07)"),
        ("How much did I get from Muster AG?", "27.03.2025, Muster AG, Betrag: 2.940,17"),
        ("What did I spend in March?", None),
        ("What was my biggest payment?", None),
        ("What was my biggest payment to Rewe?", None),
        ("What did I spend at Muster AG?", None),
    ],
)  # fmt: skip
def test_signed_amounts_are_expenses_where_they_are_all_below_0(
    question: str, text: str | None
) -> None:
    assert said("konto.csv", question) == text


@pytest.mark.parametrize(
    ("title", "question", "part"),
    [
        ("crew.csv", "What is the salary of Max?", "salary: 3100"),
        ("crew.csv", "Who has the max salary?", None),
        ("crew.csv", "what does max earn?", None),
        ("crew.csv", "Who has the maximum salary?", "name: Max Hill"),
        ("crew.csv", "How much does Will earn?", "salary: 2900"),
        ("crew.csv", "When was May born?", "born: 1988-11-20"),
        ("crew.csv", "Who was born in May 1990?", "name: Max Hill"),
        ("costs.csv", "How much did April pay?", "amount: 41.75"),
        ("costs.csv", "How much did we spend in April?", None),
        ("costs.csv", "What is the amount for April?", "amount: 41.75"),
    ],
)
def test_a_name_may_be_a_word(title: str, question: str, part: str | None) -> None:
    text = said(title, question)
    assert text is None if part is None else part in (text or "")


def test_a_word_of_a_date_narrows_the_days_that_are_asked_for() -> None:
    (table,) = tables_in("\n".join(
        f"date: {day}; kind: Food; amount: {amount}"
        for day, amount in [
            ("Monday, 2 June 2025", 10), ("Tuesday, 3 June 2025", 20),
            ("Monday, 9 June 2025", 30), ("Monday, 7 July 2025", 40),
        ]
    ))  # fmt: skip
    found = answer("How much did we spend on food on Mondays in June?", table, "costs.csv")
    assert found is not None
    assert found.text.startswith("amount in all: 40 (Monday, 2 June 2025: 10; Monday, 9 June")


@pytest.mark.parametrize(
    ("title", "question", "part"),
    [
        ("crew.csv", "Who is Max?", "name: Max Hill; department: Deck; salary: 3100; office: Hull"),
        ("crew.csv", "Tell me about May Ross", "name: May Ross; department: Galley; salary: 2500"),
        ("pantry.csv", "What do you know about K3?", "code: K3; article: Oil; shelf: Cold"),
        ("works.csv", "What do we have on the porch?", "work: Porch; lead: Tom Reed"),
        # It may be more than where the rows are from.
        ("crew.csv", "What is Hull?", None),
        ("crew.csv", "Tell me about Hull", None),
        ("crew.csv", "Tell me about Max and his wife", None),
    ],
)
def test_a_row_is_told_by_its_name(title: str, question: str, part: str | None) -> None:
    text = said(title, question)
    assert text is None if part is None else part in (text or "")


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("Which trips are to Lyon?", "no: 2; from: Paris; to: Lyon"),
        ("How many trips are from Lyon?", "2 rows of trips.csv: 1, Lyon; 3, Lyon"),
        ("Which trips are from Lyon to Paris?", "no: 1; from: Lyon; to: Paris"),
        ("What is the price for Nice?", "3, Lyon, price: 50"),
        ("Which trips have Lyon?", None),
        ("How many trips are for Lyon?", None),
        ("What is the price of Lyon?", None),
    ],
)
def test_a_cell_of_several_columns_is_of_the_one_named_before_it(
    question: str, part: str | None
) -> None:
    text = said("trips.csv", question)
    assert text is None if part is None else part in (text or "")


def test_no_comparison_and_no_figure_of_a_group_is_wrong() -> None:
    """What is answered is what pandas says, and what the query that is shown gives."""
    chance = random.Random(11)
    for _ in range(60):
        frame = pd.DataFrame({
            "no": [f"N{n}" for n in range(9)],
            "shelf": [chance.choice(["Dry", "Cold", "Top"]) for _ in range(9)],
            "stock": [chance.randrange(9) for _ in range(9)],
            "minimum": [chance.randrange(9) for _ in range(9)],
        })  # fmt: skip
        rows = frame.to_dict("records")
        (table,) = tables_in("\n".join("; ".join(f"{k}: {v}" for k, v in r.items()) for r in rows))
        database = sqlite3.connect(":memory:")
        frame.to_sql("bin.csv", database)
        for asked, met in {
            "below the minimum": frame["stock"] < frame["minimum"],
            "over the minimum": frame["stock"] > frame["minimum"],
            "at least the minimum": frame["stock"] >= frame["minimum"],
        }.items():
            found = answer(f"Which rows have a stock {asked}?", table, "bin.csv")
            wanted = set(frame["no"][met])
            assert (found is None) == (not wanted), asked
            if found is not None and len(wanted) <= 8:
                assert {no for no in frame["no"] if no in found.text} == wanted
                assert {row[1] for row in database.execute(found.query)} == wanted
        groups = frame.groupby("shelf")["stock"]
        for asked, figures in {
            "total stock by shelf": groups.sum(),
            "the lowest stock of each shelf": groups.min(),
            "number of rows per shelf": groups.size(),
        }.items():
            found = answer(asked, table, "bin.csv")
            assert found is not None or len(figures) < 2, asked
            if found is not None:
                assert dict(database.execute(found.query)) == dict(figures)
                for shelf, figure in figures.items():
                    assert f"{shelf}: {figure}" in found.text
        database.close()
