"""What is computed from a table is what pandas computes from the values that were written into it.

Made tables differ in kind of file, notation, language, units, spans, rows of names, totals, and
lines above. Covers `app.documents.readers.grid`, `app.documents.readers.spreadsheet` and
`app.documents.tables.question`.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import openpyxl
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.documents.readers.read import read
from app.documents.tables.answer import answer
from app.documents.tables.columns import Holds, columns_of
from app.documents.tables.records import tables_in

NAMES = ["Adorf", "Bern", "Cluj", "Dakar", "Essen", "Fes", "Graz", "Hobart", "Izmir", "Jena"]
GROUPS = ["North", "South", "West"]
MISSING = ["n/a", "-", "", "unknown"]
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}


@dataclass(frozen=True)
class Notation:
    """How numbers and dates are written."""

    point: str
    grouping: str
    before: str = ""
    behind: str = ""
    accounting: bool = False

    def number(self, value: Decimal) -> str:
        text = (
            f"{abs(value):,f}".replace(",", "_")
            .replace(".", self.point)
            .replace("_", self.grouping)
        )
        text = f"{self.before}{text}{self.behind}"
        if value >= 0:
            return text
        return f"({text})" if self.accounting else f"-{text}"


NOTATIONS = [
    Notation(".", ","),
    Notation(".", ",", before="$"),
    Notation(".", ",", accounting=True),
    Notation(",", "."),
    Notation(",", ".", behind=" €"),
    Notation(",", "\u00a0", behind=" kg"),
    Notation(".", "'"),
    Notation(".", ""),
    Notation(",", ""),
    Notation(".", "", behind="%"),
]
DATES = {
    "iso": lambda d: d.isoformat(),
    "dotted": lambda d: f"{d:%d.%m.%Y}",
    "us": lambda d: f"{d:%m/%d/%Y}",
    "british": lambda d: f"{d:%d/%m/%Y}",
    "english": lambda d: f"{MONTHS['en'].split()[d.month - 1]} {d.day}, {d.year}",
    "german": lambda d: f"{d.day}. {MONTHS['de'].split()[d.month - 1]} {d.year}",
}


@dataclass(frozen=True)
class Made:
    """A file, and the values that stand in it."""

    name: str
    content: bytes
    frame: pd.DataFrame  # name, group, amount, day
    written: list[list[str]]
    marked: bool  # some amount, or the total, has a mark of thousands or of decimals
    notation: Notation


@st.composite
def tables(draw: st.DrawFn) -> Made:
    count = draw(st.integers(3, 9))
    places = draw(st.sampled_from([0, 0, 1, 2, 2, 3]))
    notation = draw(st.sampled_from(NOTATIONS))
    least = draw(st.sampled_from([-9_000, 0, 0, 1]))
    largest = draw(st.sampled_from([50, 5_000, 3_000_000]))
    value = st.integers(least * 10**places, largest * 10**places)
    amounts = [Decimal(draw(value)).scaleb(-places) for _ in range(count)]
    shown = [notation.number(amount) for amount in amounts]
    gaps = draw(st.sets(st.integers(0, count - 1), max_size=count // 4))
    for gap in gaps:
        amounts[gap], shown[gap] = Decimal("NaN"), draw(st.sampled_from(MISSING))
    days = draw(
        st.lists(st.dates(date(1990, 1, 1), date(2035, 1, 1)), min_size=count, max_size=count)
    )
    style = draw(st.sampled_from(sorted(DATES)))
    groups = sorted(draw(st.sampled_from(GROUPS)) for _ in range(count))
    names = draw(st.permutations(NAMES))[:count]
    frame = pd.DataFrame({"Group": groups, "Name": names, "Amount": amounts, "Day": days})
    written = [
        [g, n, s, DATES[style](d)] for g, n, s, d in zip(groups, names, shown, days, strict=True)
    ]
    total = None
    if draw(st.booleans()):
        total = ["", draw(st.sampled_from(["Total", "Summe", "TOTAL:"]))]
        total += [notation.number(sum(a for a in amounts if not a.is_nan())), ""]
    above = draw(st.sampled_from([[], ["Report:", "spring"], ["As of 1 May"]]))
    kind = draw(st.sampled_from(["csv", "html", "md", "xlsx"]))
    render = {"csv": _csv, "html": _html, "md": _markdown, "xlsx": _xlsx}[kind]
    rows = [*written, total] if total else written
    content = render(draw, above, rows, frame, notation)
    marked = any(mark in row[2] for row in rows for mark in ".,")
    return Made(f"made.{kind}", content, frame, written, marked, notation)


HEADER = ["Group", "Name", "Amount", "Day"]


def _csv(draw: st.DrawFn, above: list[str], rows: list[list[str]], *_: object) -> bytes:
    delimiter = draw(st.sampled_from([",", ";", "\t"]))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    if draw(st.booleans()) and delimiter == ";":
        out.write("sep=;\n")
    if above:
        writer.writerow(above)
        writer.writerow([])
    writer.writerows([HEADER, *rows])
    return out.getvalue().encode()


def _html(draw: st.DrawFn, above: list[str], rows: list[list[str]], *_: object) -> bytes:
    """Names may span rows, or two columns with names of their own below."""
    spanned, lines, at = draw(st.booleans()), [], 0
    while at < len(rows):
        same = (
            sum(1 for row in rows[at:] if row[0] == rows[at][0]) if spanned and rows[at][0] else 1
        )
        for n, row in enumerate(rows[at : at + same]):
            first = f"<td rowspan={same}>{row[0]}</td>" if n == 0 else ""
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
            lines.append(f"<tr>{first}{cells}</tr>")
        at += same
    if draw(st.booleans()):
        head = "<tr><th colspan=2>Place</th><th colspan=2>Entry</th></tr>"
    else:
        head = ""
    head += "<tr>" + "".join(f"<th>{name}</th>" for name in HEADER) + "</tr>"
    table = f"<table>{head}{''.join(lines)}</table>"
    return f"<!doctype html><html><p>{' '.join(above)}</p>{table}</html>".encode()


def _markdown(draw: st.DrawFn, above: list[str], rows: list[list[str]], *_: object) -> bytes:
    lines = [" ".join(above), "", "| " + " | ".join(HEADER) + " |", "|---|---|--:|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines).encode()


def _xlsx(
    draw: st.DrawFn,
    above: list[str],
    rows: list[list[str]],
    frame: pd.DataFrame,
    notation: Notation,
) -> bytes:
    """Amounts are texts as they are written, as of an export; groups may be merged."""
    book = openpyxl.Workbook()
    sheet = book.active
    if above:
        sheet.append(above)
        sheet.append([])
    sheet.append(HEADER)
    first = sheet.max_row + 1
    for row in rows:
        sheet.append(row)
    if draw(st.booleans()):
        start = first
        for at in range(first, first + len(frame)):
            last = at + 1 == first + len(frame)
            if last or frame["Group"][at + 1 - first] != frame["Group"][start - first]:
                if at > start:
                    sheet.merge_cells(start_row=start, end_row=at, start_column=1, end_column=1)
                start = at + 1
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _asked(made: Made) -> list[tuple[str, object]]:
    """Questions, and what pandas says to each."""
    frame = made.frame
    known = frame[~frame["Amount"].map(lambda a: a.is_nan())]
    amounts = known["Amount"]
    group = frame["Group"].iloc[0]
    row = frame.iloc[len(frame) // 2]
    asked: list[tuple[str, object]] = [
        ("How many rows are there?", len(frame)),
        (f"How many rows have the Group {group}?", int((frame["Group"] == group).sum())),
        (f"What is the Amount of {row['Name']}?", made.written[len(frame) // 2][2]),
        (
            "Which Name has the earliest Day?",
            set(frame["Name"][frame["Day"] == frame["Day"].min()]),
        ),
        ("Which Name has the latest Day?", set(frame["Name"][frame["Day"] == frame["Day"].max()])),
    ]
    if len(known) > 1:
        asked += [
            ("What is the total Amount?", amounts.sum()),
            ("What is the average Amount?", amounts.sum() / len(amounts)),
            ("Which Name has the highest Amount?", set(known["Name"][amounts == amounts.max()])),
            ("Which Name has the lowest Amount?", set(known["Name"][amounts == amounts.min()])),
        ]
    groups = known.groupby("Group")["Amount"]
    if groups.ngroups > 1 and frame["Group"].nunique() == groups.ngroups:
        sums, sizes = groups.sum(), groups.size()
        asked += [
            ("How many rows are there per Group?", dict(frame.groupby("Group").size())),
            ("What is the total Amount by Group?", dict(sums)),
            ("What is the average Amount for each Group?", dict(sums / sizes)),
            ("What is the highest Amount in each Group?", dict(groups.max())),
        ]
    return asked


def _right(said: str, wanted: object, made: Made) -> bool:
    if isinstance(wanted, set):
        return {name for name in NAMES if re.search(rf"\b{name}\b", said)} == wanted
    if isinstance(wanted, int):
        return re.match(rf"{wanted} rows?\b", said) is not None
    if isinstance(wanted, str):
        cell = " ".join(wanted.split()) or "not given"
        return said.endswith(f"Amount: {cell}")
    if isinstance(wanted, dict):
        figures = re.sub(r" \([^)]*\)", "", said).partition("Group: ")[2].split("; ")
        shown = dict(each.rsplit(": ", 1) for each in figures)
        return shown.keys() == wanted.keys() and all(
            abs(_figure(shown[name], made) - each) <= Decimal("0.005")
            for name, each in wanted.items()
        )
    found = re.search(r"(?:in all|on average): ([^(]*?) \(", said)
    assert isinstance(wanted, Decimal)
    if found is None:
        return False
    return abs(_figure(found[1], made) - wanted) <= Decimal("0.005")


def _figure(said: str, made: Made) -> Decimal:
    point = made.notation.point if made.marked else "."
    return Decimal(re.sub(rf"[^\d{point}-]", "", said).replace(point, "."))


def test_nothing_computed_is_wrong_and_little_is_declined() -> None:
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=700, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(tables())
    def each(made: Made) -> None:
        text = "\f".join(read(made.content, made.name)[1].pages)
        found = [table for table in tables_in(text) if len(table.columns) > 1]
        for question, wanted in _asked(made):
            answers = (answer(question, table, made.name) for table in found)
            said = next((each.text for each in answers if each), None)
            if said is None or said.startswith("No answer"):
                outcomes["declined"] += 1
                continue
            outcomes["right"] += 1
            assert _right(said, wanted, made), (question, wanted, said, text)

    each()
    assert outcomes["declined"] <= 0.1 * outcomes.total(), outcomes


TWO_WAYS = "its numbers may have decimals or thousands behind the mark"
CELLS = [
    # A column's own cells tell its notation,
    (["1.500", "950", "2.300"], ["1500", "950", "2300"]),
    (["1,250", "0,750", "2,500"], ["1.25", "0.75", "2.5"]),
    (["1'200.50", "950.00"], ["1200.5", "950"]),
    (["1,200", "(300)", "80"], ["1200", "-300", "80"]),
    (["1,23,456", "12"], ["123456", "12"]),
    (["12.50-", "3.00", "−4.00"], ["-12.5", "3", "-4"]),
    (["＄1,250.50", "$90"], ["1250.5", "90"]),
    (["12", "n/a", "unknown"], None),
    (["12", "n/a", "7"], ["12", None, "7"]),
    # and its units, if they measure one thing,
    (["2.5 kg", "800 g", "90 g"], ["2500", "800", "90"]),
    (["1 h", "30 min", "15 min"], ["60", "30", "15"]),
    (["5 kg", "3 m", "1 kg"], "its numbers are of several units (kg, m)"),
    (["$5", "€3"], "its numbers are of several units ($, €)"),
    # but seats, codes and phone numbers are no numbers.
    (["12A", "12B"], None),
    (["0171", "0172"], None),
    (["2-3", "4"], None),
    (["1.5", "2.25", "1.234.567"], TWO_WAYS),
    (["2,300", "1500"], TWO_WAYS),
]


@pytest.mark.parametrize(("cells", "values"), CELLS)
def test_a_column_has_one_notation(cells: list[str], values: list[str | None] | str | None) -> None:
    (held,) = columns_of([cells])
    if isinstance(values, list):
        assert list(held.values) == [None if v is None else Decimal(v) for v in values]
    else:
        assert (held.holds, held.why) == (
            (Holds.UNDECIDED, values) if values else (Holds.WORDS, "")
        )


def test_other_columns_tell_what_one_does_not() -> None:
    prices, weights = columns_of([["1,50", "2,75"], ["1.500", "2.300"]])
    assert weights.values == (Decimal(1500), Decimal(2300))
    # A day says where a file is from, but three figures behind a mark may be decimals there, too.
    _, weights = columns_of([["14.02.2027", "03.01.2027"], ["1.500", "2.300"]])
    assert weights.either
    first, second = columns_of([["03/04/2026", "05/06/2026"], ["25/01/2026", "01/02/2026"]])
    assert first.holds is second.holds is Holds.DATES
    (alone,) = columns_of([["03/04/2026", "05/06/2026"]])
    assert alone.why == "its dates may have the day or the month first"
    assert prices.point == ","


def test_what_is_written_alike_in_both_notations_is_computed() -> None:
    (table,) = tables_in("item: a; weight: 1,500\nitem: b; weight: 2,300\n")
    said = [answer(question, table, "a.csv") for question in (
        "What is the total weight?", "Which item has the highest weight?", "average weight?",
        "Which item has a weight over 2?",
    )]  # fmt: skip
    assert [each and each.text.split(" (")[0] for each in said] == [
        "weight in all: 3,800",
        "item: b; weight: 2,300",
        "weight on average: 1,900",
        f"No answer can be computed from the column weight: {TWO_WAYS}.",
    ]
    (table,) = tables_in("item: a; weight: 501,500\nitem: b; weight: 502,300\n")
    found = answer("What is the total weight?", table, "a.csv")
    assert found is not None
    assert found.text.startswith("No answer can be computed")


@pytest.mark.parametrize(
    ("cells", "said", "value"),
    [
        (["1.200,50", "950,00"], "1.500", "1500"),
        (["1.200,50", "950,00"], "1.500,5", "1500.5"),
        (["1.200,50", "950,00"], "37.50", "37.5"),
        (["1.200,50", "950,00"], "1,500", None),
        (["1,200.50", "950.00"], "1,500", "1500"),
        (["1,200.50", "950.00"], "1.500", None),
        (["1.2005", "9.5"], "1.500", "1.5"),
        (["12", "7"], "1,500", "1500"),
        (["12", "7"], "1.5.00", None),
        (["12", "7"], "a dozen", None),
    ],
)
def test_a_number_in_a_question_is_read_as_the_column_has_its_own(
    cells: list[str], said: str, value: str | None
) -> None:
    (held,) = columns_of([cells])
    assert held.number(said) == (None if value is None else Decimal(value))


def test_rows_are_compared_with_an_amount_in_their_notation() -> None:
    (table,) = tables_in("Nr: A; Betrag: 1.200,50\nNr: B; Betrag: 1.600,00\nNr: C; Betrag: 9,50")
    for said, found in {"1.500": "Nr: B", "1.500,00": "Nr: B", "1,500": None}.items():
        text = answer(f"Which Nr has a Betrag over {said}?", table, "konto.csv")
        assert (text and text.text.split(";")[0]) == found, said
