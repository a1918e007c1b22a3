"""The table that a document's lines were written from is found again, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.readers.common import one_line
from app.documents.readers.grid import WIDTH, table_lines
from app.documents.tables import records
from app.documents.tables.answer import answer
from app.documents.tables.naming import spellings
from app.documents.tables.records import tables_in

words = st.text("abcdefgh XYZ019.,-()&", min_size=1, max_size=20).map(one_line)
cells = words | st.sampled_from(["", "9:30", "a; b", "to: Bob", "x; y: z", "a" * 120])


@st.composite
def grids(draw: st.DrawFn) -> list[list[str]]:
    """A header and rows that fill their first cell; every column is filled somewhere."""
    names = draw(
        st.lists(
            words.filter(lambda n: any(map(str.isalpha, n))), min_size=2, max_size=6, unique=True
        )
    )
    first = draw(st.lists(words.filter(bool), min_size=2, max_size=6))
    filled = [[key, *(draw(words.filter(bool)) for _ in names[1:])] for key in first[:1]]
    others = [[key, *(draw(cells) for _ in names[1:])] for key in first[1:]]
    return [names, *filled, *others]


@given(grids())
def test_a_table_comes_back_from_its_lines(grid: list[list[str]]) -> None:
    text = "Before.\n\n" + "\n".join(table_lines(grid)) + "\n\nAfter."
    (table,) = tables_in(text)
    assert table.columns == tuple(grid[0])
    written = [tuple(cell.replace("x; y: z", "x, y: z") for cell in row) for row in grid[1:]]
    assert list(table.rows) == written
    for row, (start, end) in zip(table.rows, table.spans, strict=True):
        assert text[start:end].startswith(f"{grid[0][0]}: {row[0]}")


def test_rows_that_begin_like_items_are_no_list_besides() -> None:
    grid = [["- size", "price"], ["small", "3"], ["large", "5"]]
    (table,) = tables_in("Caps:\n" + "\n".join(table_lines(grid)))
    assert table.columns == ("- size", "price")


def test_a_cell_that_is_asked_for_stands_once() -> None:
    (table,) = tables_in("meter: gas; reading: 7 m3\nmeter: power; reading: 9 kWh\n")
    said = answer("What is the reading of the gas meter?", table, "flat.txt")
    assert said is not None
    assert said.text == "gas, reading: 7 m3"


def test_two_rows_of_one_name_stay_two() -> None:
    grid = [["month", "in", "out"], ["May", "5", ""], ["May", "", "6"], ["June", "7", "8"]]
    (table,) = tables_in("\n".join(table_lines(grid)))
    assert len(table.rows) == 3


def test_a_long_record_is_one_row() -> None:
    header = [f"column {n}" for n in range(9)]
    grid = [header, *([f"r{row}", *("x" * 80 for _ in header[1:])] for row in range(3))]
    lines = table_lines(grid)
    assert len(lines) > 3
    assert max(map(len, lines)) <= WIDTH
    (table,) = tables_in("\n".join(lines))
    assert [row[0] for row in table.rows] == ["r0", "r1", "r2"]


def test_a_cell_that_is_cut_like_fields_counts_whole_for_its_line() -> None:
    header = ["name", "one", "two", "three"]
    grid = [header, ["a", "1", "1", "1"], ["b", "x" * 130, "x" * 139, "y; z"]]
    lines = table_lines(grid)
    assert len(lines) == 3
    (table,) = tables_in("\n".join(lines))
    assert table.rows == (("a", "1", "1", "1"), ("b", "x" * 130, "x" * 139, "y; z"))


def test_prose_is_no_table() -> None:
    assert tables_in("Dear Ann: hello; and to Bob: hi.\nSee you; soon.") == []
    assert tables_in("To: Ann\nTo: Bob\n") == []


def test_a_column_of_one_unit_holds_numbers() -> None:
    grid = [
        ["seat", "phone", "price", "weight", "year"],
        ["12A", "0171", "€1,250.50", "3 kg", "2019"],
        ["12B", "0172", "€90", "4.5 kg", "2020"],
    ]
    (table,) = tables_in("\n".join(table_lines(grid)))
    assert table.numeric == {2, 3, 4}
    assert table.held[2].values == (Decimal("1250.5"), Decimal(90))


def test_lists_are_tables_of_one_column() -> None:
    text = "# Members\n\n- Ada\n- Ben\n- Cem\n\nThe club has these boats: Ada, Bora and Cleo.\n"
    members, boats = tables_in(text)
    assert (members.columns, members.rows) == (("Members",), (("Ada",), ("Ben",), ("Cem",)))
    assert boats.columns == ("The club has these boats",)
    assert boats.rows == (("Ada",), ("Bora",), ("Cleo",))
    said = answer("How many boats does the club have?", boats, "club.txt")
    assert said is not None
    assert said.text == "3 rows of club.txt"
    assert answer("Which boat is the largest?", boats, "club.txt") is None


def test_totals_are_told_by_name_or_by_sum() -> None:
    rows = [["tea", "2", "1"], ["milk", "1", "4"], ["bread", "5", "2"]]
    for last, total in (
        (["Total", "9", ""], True),
        (["Yhteensä", "8", "7"], True),
        (["salt", "8", "6"], False),
        (["", "8", "7"], True),
    ):
        (table,) = tables_in("\n".join(table_lines([["item", "price", "count"], *rows, last])))
        assert bool(table.totals) == total, last


def test_cells_are_spelt_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    spelt: list[str] = []

    def noted(cell: str, *args: Any) -> Iterator[tuple[str, ...]]:
        spelt.append(cell)
        return spellings(cell, *args)

    monkeypatch.setattr(records, "spellings", noted)
    (table,) = tables_in("name: Ann; town: Bern; cups: 4\nname: Ben; town: Bern; cups: 7")
    for question in ("How many cups did Ann have?", "Which names are from Bern?"):
        answer(question, table, "cups.csv")
    assert sorted(spelt) == ["Ann", "Ben", "Bern"]
