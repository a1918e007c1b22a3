"""The days that a question names are exactly those, or none."""

from __future__ import annotations

import datetime
import random

import pytest

from app.documents.tables.answer import answer
from app.documents.tables.periods import period_in
from app.documents.tables.records import tables_in

HELD = [datetime.date(2023, 11, 4), datetime.date(2024, 3, 3), datetime.date(2024, 5, 24)]
MONTHS = ["January", "February", "March", "April", "May", "June"]


@pytest.mark.parametrize(
    ("question", "first", "end"),
    [
        ("costs in March?", "2024-03-01", "2024-04-01"),
        ("costs in March 2025", "2025-03-01", "2025-04-01"),
        ("costs on the 15th of March 2024", "2024-03-15", "2024-03-16"),
        ("costs on 2024-03-15", "2024-03-15", "2024-03-16"),
        ("costs on 15.03.2024", "2024-03-15", "2024-03-16"),
        ("costs in 2024", "2024-01-01", "2025-01-01"),
        ("costs between 20 and 30 May", "2024-05-20", "2024-05-31"),
        ("costs from 14 February to 15 March 2025", "2025-02-14", "2025-03-16"),
        ("costs between March and November 2023", "2023-03-01", "2023-12-01"),
        ("costs since June 2024", "2024-06-01", None),
        ("costs after June 2024", "2024-07-01", None),
        ("costs before June 2024", None, "2024-06-01"),
        ("costs until 3 June 2024", None, "2024-06-04"),
        ("costs from June 2024", "2024-06-01", "2024-07-01"),
        ("costs from June 2024 on", "2024-06-01", None),
        ("costs on Monday 3 June 2024", "2024-06-03", "2024-06-04"),
    ],
)
def test_a_period_is_from_one_day_to_another(
    question: str, first: str | None, end: str | None
) -> None:
    found = period_in(question)
    assert found is not None
    within = found.days(HELD)
    assert within is not None
    assert tuple(day and day.isoformat() for day in within) == (first, end)
    said = question.removeprefix("costs ").removesuffix("?").removesuffix(" on")
    assert question[found.start : found.end] == said


@pytest.mark.parametrize(
    "question",
    [
        "costs since June",  # of which year?
        "costs on 3/4/2024",  # in March or in April
        "costs on 31 February 2024",
        "costs in June",  # no day of these
        "costs between November and March 2024",
        "May I march in?",
        "costs in Marchmont",
        "costs last month",
    ],
)
def test_what_is_no_period_or_of_an_unsaid_year_is_none(question: str) -> None:
    found = period_in(question)
    assert found is None or found.days(HELD) is None


def test_no_sum_of_a_period_is_wrong() -> None:
    chance = random.Random(8)
    answered = 0
    for _ in range(40):
        rows = [
            (datetime.date(2024, 1, 1) + datetime.timedelta(chance.randrange(180)),
             chance.choice(("Food", "Rent", "Trips")), chance.randrange(100, 9999))
            for _ in range(25)
        ]  # fmt: skip
        lines = "".join(
            f"date: {day}; kind: {kind}; amount: {cents / 100:.2f}\n" for day, kind, cents in rows
        )
        (table,) = tables_in(lines)
        one, other = sorted(chance.sample(range(6), 2))
        day = chance.randrange(1, 29)
        for asked, within in (
            (f"in {MONTHS[one]}", lambda d, one=one: d.month == one + 1),
            (f"from {MONTHS[one]} to {MONTHS[other]}",
             lambda d, one=one, other=other: one < d.month <= other + 1),
            (f"since {day} {MONTHS[one]} 2024",
             lambda d, one=one, day=day: (d.month, d.day) >= (one + 1, day)),
            (f"before {MONTHS[other]}", lambda d, other=other: d.month <= other),
        ):  # fmt: skip
            met = [cents for d, kind, cents in rows if kind == "Food" and within(d)]
            found = answer(f"What is the total amount of food {asked}?", table, "book.csv")
            assert (found is None) == (not met), asked
            if found is not None and len(met) > 1:
                total = f"{sum(met) / 100:,.2f}".rstrip("0").rstrip(".")
                assert found.text.startswith(f"amount in all: {total} ("), (asked, found.text)
                answered += 1
    assert answered > 80


def test_a_period_is_of_the_column_that_says_when() -> None:
    lines = (
        "lamp: Arc; delivered: 2024-03-02; stock: 4\nlamp: Dome; delivered: 2024-05-06; stock: 9\n"
    )
    (table,) = tables_in(lines)
    delivered = answer("Which lamps were delivered in May?", table, "lamps.csv")
    assert delivered is not None
    assert "Dome" in delivered.text
    assert "Arc" not in delivered.text
    assert delivered.query.endswith("""delivered" >= '2024-05-01' AND "delivered" < '2024-06-01'""")
    assert answer("What was the total stock of lamps in May?", table, "lamps.csv") is None


def test_a_column_of_times_is_not_one_of_days() -> None:
    lines = "date: 2024-05-02; time: 09:30; paid: 4\ndate: 2024-05-06; time: 10:15; paid: 9\n"
    (table,) = tables_in(lines)
    found = answer("How much did we spend in May 2024?", table, "spent.csv")
    assert found is not None
    assert "in all: 13" in found.text


def test_a_day_may_be_what_is_asked_about() -> None:
    (table,) = tables_in("name: Ada; birthday: 2015-05-03\nname: Bo; birthday: 2015-07-09\n")
    found = answer("Whose birthday is 3 May?", table, "birthdays.csv")
    assert found is not None
    assert "Ada" in found.text
    assert "Bo" not in found.text
