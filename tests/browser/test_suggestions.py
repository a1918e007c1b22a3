"""The questions a document is offered with: what a person would ask, and nothing that moves."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import ChatPage

_MADE = """([text, english]) => import("/static/js/chat/questions.js").then((module) =>
  module.questionsOf(text, english).map((made) => made.values?.heading ?? made.values ?? made))"""


def made(page: Page, text: str, *, english: bool = True) -> list[object]:
    """Questions in English, headings and labels, cells of a table."""
    found: list[object] = page.evaluate(_MADE, [text, english])
    return found


def test_a_sentence_is_asked_for_what_it_says(modules: Page) -> None:
    for sentence, question in {
        "The chimney is swept in September.": "When is the chimney swept?",
        "The boat is kept in the shed.": "Where is the boat kept?",
        "The spare key hangs behind the shutter.": "Where does the spare key hang?",
        "The wifi password of the cabin is heron-42.": "What is the wifi password of the cabin?",
        "The roof is 40 years old.": "How old is the roof?",
        "The ferry costs $12.": "How much does the ferry cost?",
        # A person would not ask that.
        "The oil is 5W-30.": None,
        "The harbour fee of 410 euros is due in May.": None,
        "The only way is up.": None,
        "The dog is happy and the cat is in the garden.": None,
        "The man was noted on Monday.": None,
    }.items():
        assert made(modules, f"A title\n\n{sentence}\n") == ([question] if question else []), (
            sentence
        )
    assert made(modules, "The chimney is swept in September.\n", english=False) == []


def test_headings_and_labels_are_quoted(modules: Page) -> None:
    assert made(modules, "# Statutes\n\n## § 3 Rent\n\nIt is due.\n\n### Pets?\n") == ["Rent"]
    paragraphs = (
        "Manual\n\nHot water. Turn it.\n\nHoliday mode. Press it.\n\nService. Once a year.\n"
    )
    assert made(modules, paragraphs) == ["Hot water", "Holiday mode", "Service"]
    labels = "Miete: 410 Euro\nHausmeister: Herr Abel\nKaution: 800 Euro\n"
    assert made(modules, labels, english=False) == ["Miete", "Hausmeister", "Kaution"]
    # What is asked already is not asked by its heading, too.
    lease = "# Lease\n\n## Rent\n\nThe rent is 840 euros.\n\n## Pets\n\nOne dog.\n"
    assert made(modules, lease) == ["What is the rent?", "Pets"]
    words = "# Lease\n\n## Rent\n\nThe current fee is 8 euros.\n\n## Pets\n\nOne dog.\n"
    assert made(modules, words) == ["What is the current fee?", "Rent", "Pets"]
    letters = "From: Anna\nTo: Ben\nAnna: Hello.\nBen: Hi.\nAnna: Bye.\n"
    assert made(modules, letters) == ["Ben"]
    assert made(modules, "A TALE\n\nBY NOBODY\n\nLONDON\n\nHe said: It rains.\n") == []


def test_a_row_is_asked_for_by_its_name(modules: Page) -> None:
    rows = "id: S1; store: Lyon; revenue: 5000\nid: S2; store: Turin; revenue: 7500\n"
    assert made(modules, rows) == [
        {"column": "revenue", "row": "Lyon"},
        {"column": "revenue", "row": "Turin"},
    ]
    assert made(modules, "id: S1; day: 1 May\nid: S2; day: 1 May\n") == []


def test_they_are_in_the_language_of_the_page_and_answered(german: ChatPage) -> None:
    manual = "# Manual\n\nThe pump is cleaned in May.\n\n## Hot water\n\nTurn the dial.\n"
    german.add("manual.md", manual)
    asked = german.page.get_by_test_id("start-question")
    expect(asked).to_have_text(["Was steht unter „Hot water“?", "Fassen Sie manual.md zusammen."])
    asked.first.click()
    expect(german.last_answer.get_by_test_id("answer-text")).to_contain_text("Turn the dial.")


@pytest.mark.usefixtures("emptied")
def test_they_come_without_moving_what_is_seen_and_stay(chat: ChatPage) -> None:
    page = chat.page
    page.get_by_test_id("start-sample").wait_for()
    page.evaluate(
        """() => {
          window.places = [];
          const top = (element) => element.getBoundingClientRect().top;
          new MutationObserver(() => {
            const asked = document.querySelector(".suggestions");
            const line = document.querySelector("#in-use");
            const seen = getComputedStyle(line).visibility === "visible";
            if (asked) window.places.push([top(asked), seen ? top(line) : null]);
          }).observe(document.querySelector("#starts"), { childList: true, subtree: true });
        }"""
    )
    page.get_by_test_id("start-sample").click()
    questions = page.get_by_test_id("start-question")
    expect(questions).to_have_count(3)
    expect(page.get_by_test_id("in-use")).to_be_visible()
    places = page.evaluate("() => window.places")
    assert len(places) > 1
    assert all(place in (places[-1], [places[-1][0], None]) for place in places), places
    first = questions.first.element_handle()
    page.get_by_test_id("open-settings").click()
    page.keyboard.press("Escape")
    page.get_by_test_id("private-switch").check()
    assert first is not None
    assert first.evaluate("e => e.isConnected")
