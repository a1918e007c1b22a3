"""Rows that an answer quotes of a table are shown as a table."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import ChatPage

BIKES = b"""code,model,price
B104,Rondo City,780
B103,Velta Cargo,1290
B109,Strada Race,95
"""
_GROUPS = """(text) => import("/static/js/chat/rows.js").then((module) => module.groupsOf(text))"""
_ROWS = """(text) => import("/static/js/chat/rows.js").then((module) => module.rowsOf(text))"""


def test_rows_are_read_where_all_have_the_same_columns(modules: Page) -> None:
    for text, rows in (
        ("code: B1; price: 3", [["code", "price"], ["B1", "3"]]),
        ("code: B1; at: 9:30 | code: B2; at: ", [["code", "at"], ["B1", "9:30"], ["B2", ""]]),
        ("code: B1; price: 3 | code: B2", []),
        ("code: B1; price: 3 | price: 4; code: B2", []),
        ("The price is 3; the code is B1.", []),
        ("code: B1", []),
    ):
        assert modules.evaluate(_ROWS, text) == rows, text


def test_figures_of_groups_are_rows(modules: Page) -> None:
    for text, rows in (
        (
            "price in all by shop: Aldi: 1,2; A: B: 3",
            [["shop", "price in all"], ["Aldi", "1,2"], ["A: B", "3"]],
        ),
        (
            "cost by day in all, paid by: Max: 1; Ada: 3",
            [["paid by", "cost by day in all"], ["Max", "1"], ["Ada", "3"]],
        ),
        ("rows by shop: Aldi: 1; and 4 more", []),
        ("Groceries, Amount in all: 342.65", []),
        ("No figures.", []),
    ):
        assert modules.evaluate(_GROUPS, text) == rows, text


def test_they_are_sorted_copied_with_tabs_and_still_cite(chat: ChatPage, emptied: None) -> None:
    page = chat.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.add("bikes.csv", BIKES)
    answer = chat.answered("Compare B103 and B104.", private=True)
    table = answer.get_by_test_id("rows")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator(".cite")).to_have_count(1)
    table.get_by_role("button", name="price").click()
    expect(table.locator("tbody tr td:last-child")).to_have_text(["780", "1290"])
    expect(table.locator("th[aria-sort=ascending]")).to_have_text("price")
    table.get_by_role("button", name="price").click()
    expect(table.locator("tbody tr td:first-child")).to_have_text(["B103", "B104"])
    expect(table).not_to_contain_text("price: ")
    answer.get_by_test_id("copy").click()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.splitlines()[:2] == ["code\tmodel\tprice", "B103\tVelta Cargo\t1290"]
    dearest = chat.answered("Which bike has the highest price?", private=True)
    expect(dearest.locator("tbody td:last-child")).to_have_text("1290")
    expect(dearest.get_by_test_id("rows")).to_contain_text("the highest price")
    chat.add(
        "costs.csv", b"day,shop,amount\n2024-05-03,Aldi,12\n2024-05-04,Lidl,9\n2024-05-05,Aldi,4\n"
    )
    spent = chat.answered("How much did we spend per shop?", private=True)
    expect(spent.locator("th")).to_have_text(["shop", "amount in all"])
    expect(spent.locator("tbody td")).to_have_text(["Aldi", "16", "Lidl", "9"])


def test_a_wide_table_scrolls_by_keys_and_breaks_no_words(page: Page, scripted: Scripted) -> None:
    cells = [f"longword{number}" for number in range(20)]
    rows = [cells, ["---"] * len(cells), cells]
    scripted.generation.script = "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
    chat = signed_in(page, scripted.url)
    answer = chat.answered("Show all.")
    table = answer.get_by_role("region", name="Table")
    heights = table.locator("td").evaluate_all("(all) => all.map((cell) => cell.offsetHeight)")
    assert max(heights) < 60
    table.press("ArrowRight")
    page.wait_for_function("(table) => table.scrollLeft > 0", arg=table.element_handle())
