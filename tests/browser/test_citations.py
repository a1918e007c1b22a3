"""Marks at the sentences that rest on a passage, and what counts as a source."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from harness.pdf import pdf
from harness.services import Service
from tests.browser.conftest import Opened
from tests.browser.page import ChatPage

NOTE = """# The boat house

The oar hangs behind the red door. The rope is coiled on the shelf.
"""
_RESTS = """([sentence, cited, passages]) => import("/static/js/chat/citations.js").then((module) =>
  module.restsOn(sentence, cited, passages.map((words) => new Set(words.split(" ")))))"""
# Marks an answer's HTML, and gives it back with the numbers in it, and the passages used.
_CITED = """([html, texts]) => import("/static/js/chat/citations.js").then((module) => {
  const body = document.createElement("div");
  body.innerHTML = html;
  const sources = texts.map((text, index) => ({
    side: "public", id: String(index), title: `T${index}`, text, weight: 1, citation: index + 1,
  }));
  const used = module.cite(body, sources, () => {});
  const text = [...body.querySelectorAll("[data-testid=cite]")].reduceRight((_, mark) => {
    mark.replaceWith(`<${mark.dataset.number}>`);
    return body.textContent;
  }, body.textContent);
  return [text, used.map(({ id }) => Number(id))];
})"""

# At how many widths a text's mark stands on a line without a word before it.
_ALONE = """([text, whiteSpace]) => import("/static/js/chat/citations.js").then((module) => {
  const body = document.createElement("div");
  body.className = "text markdown";
  body.innerHTML = `<p>${text}</p>`;
  document.body.append(body);
  const source = (id) => ({ side: "public", id, title: id, text, weight: 1, citation: Number(id) });
  module.cite(body, [source("1"), source("2")], () => {});
  const [mark] = body.querySelectorAll("[data-testid=cite]");
  mark.parentElement.style.whiteSpace = whiteSpace;
  const word = new Range();
  const { firstChild } = body.querySelector("p");
  word.setStart(firstChild, firstChild.length - 1);
  word.setEnd(firstChild, firstChild.length);
  let alone = 0;
  for (let width = 100; width < 400; width++) {
    body.style.width = `${width}px`;
    alone += mark.getBoundingClientRect().top >= word.getBoundingClientRect().bottom;
  }
  body.remove();
  return alone;
})"""


def test_a_sentence_is_marked_with_what_it_rests_on(modules: Page) -> None:
    for html, passages, shown in (
        (
            "<p>The oar hangs behind the door. It is blue.</p>",
            ["The oar hangs behind the red door."],
            ["The oar hangs behind the door.<1> It is blue.", [0]],
        ),
        (  # by two, each for its part
            "<p>Grandfather was born in Latvia. The Latvian capital, Riga, stands there.</p>",
            ["Riga is the Latvian capital.", "Grandfather was born in Latvia in 1931."],
            [
                "Grandfather was born in Latvia.<1> The Latvian capital, Riga, stands there.<2>",
                [1, 0],
            ],
        ),
        (  # read, and not used
            "<p>Air scatters blue light.</p>",
            ["Blood groups are A and B.", "Air scatters blue light more than red light."],
            ["Air scatters blue light.<1>", [1]],
        ),
        (  # the model's own numbers give way to marks, if it is true
            "<p>The oar hangs [2]. The roof leaks [1].</p>",
            ["Something else entirely.", "The oar hangs behind the red door."],
            ["The oar hangs.<1> The roof leaks.", [1]],
        ),
        (  # of several elements
            "<p>The <em>oar</em> hangs behind the <b>door</b>. [1]</p><pre>oar door</pre>",
            ["The oar hangs behind the red door."],
            ["The oar hangs behind the door.<1>oar door", [0]],
        ),
        ("<p>An array a[7] has items.</p>", ["Nothing."], ["An array a[7] has items.", []]),
        (
            "<p><span class='phrase'>The oar hangs.</span></p>",
            ["The oar hangs."],
            ["The oar hangs.", []],
        ),
    ):
        assert modules.evaluate(_CITED, [html, passages]) == shown, html


def test_sentences_in_a_row_that_rest_on_the_same_have_one_mark(modules: Page) -> None:
    boat = "The oar hangs behind the red door. The rope is coiled on the shelf."
    for html, passages, shown in (
        (
            "<p>The oar hangs behind the door. The rope is coiled. The roof leaks.</p>",
            [boat, "The roof leaks in autumn."],
            ["The oar hangs behind the door. The rope is coiled.<1> The roof leaks.<2>", [0, 1]],
        ),
        (  # one that rests on nothing ends the run, one that says nothing does not
            "<p>The oar hangs behind the door. Yes. The rope is coiled. Elephants trumpet loudly."
            " The shelf is red. Or so.</p>",
            [boat],
            [
                "The oar hangs behind the door. Yes. The rope is coiled.<1>"
                " Elephants trumpet loudly. The shelf is red.<1> Or so.",
                [0],
            ],
        ),
        (  # each paragraph and each item says what it rests on
            "<p>The oar hangs.</p><ul><li>The rope is coiled.</li><li>The red door.</li></ul>",
            [boat],
            ["The oar hangs.<1>The rope is coiled.<1>The red door.<1>", [0]],
        ),
        (  # as does a sentence that rests on more than the one before it
            "<p>The oar hangs behind the door [1]. The rope is coiled [1][2].</p>",
            [boat, "The rope is new."],
            ["The oar hangs behind the door.<1> The rope is coiled.<1><2>", [0, 1]],
        ),
    ):
        assert modules.evaluate(_CITED, [html, passages]) == shown, html


def test_no_abbreviation_ends_a_sentence(modules: Page) -> None:
    # What is before one rests on another passage than the whole, which has all of its words.
    for before, after in (
        ("The rent is collected by Mr.", "P. Haddad from Beirut"),
        ("The survey is by Prof. Dr.", "Ångström of Uppsala"),
        ("The church is that of St.", "Ives, by the harbour"),
        ("Die Miete kassiert Hr.", "Özdemir persönlich"),
        ("Das Lager steht in der Hauptstr.", "12 bei Potsdam"),
        ("Der Umzug beginnt am 9.", "Mai in aller Frühe"),
        ("La renta la cobra la Sra.", "Ibáñez por la mañana"),
    ):
        said = f"{before} {after}."
        shown = [f"{said}<1>", [1]]
        assert modules.evaluate(_CITED, [f"<p>{said}</p>", [before, said]]) == shown
    # A word does, however short.
    said = "The ferry leaves Rome. The oar hangs here."
    shown = ["The ferry leaves Rome.<1> The oar hangs here.<2>", [0, 1]]
    passages = ["The ferry leaves Rome.", "The oar hangs here."]
    assert modules.evaluate(_CITED, [f"<p>{said}</p>", passages]) == shown


def test_no_line_begins_with_a_mark(modules: Page) -> None:
    for end in (".", "!", "…", "?”", ".)", "。"):
        said = f"The oar hangs behind the very red door{end}"
        assert modules.evaluate(_ALONE, [said, ""]) == 0, end
        assert modules.evaluate(_ALONE, [said, "normal"]) > 0, "else the check shows nothing"


def test_no_passage_is_used_without_a_word_of_it(modules: Page) -> None:
    assert modules.evaluate(_RESTS, ["The oar hangs here.", [0], ["paint brush"]]) == []
    assert modules.evaluate(_RESTS, ["The oar hangs here.", [0], ["hangs brush"]]) == [0]
    assert modules.evaluate(_RESTS, ["Yes.", [], ["paint"]]) == []
    assert modules.evaluate(_RESTS, ["Anything.", [], []]) == []


@pytest.mark.usefixtures("emptied")
def test_a_mark_shows_the_passage_and_opens_the_document(chat: ChatPage) -> None:
    page = chat.page
    chat.add("boat.md", NOTE)
    chat.answered("Where does the oar hang?", private=True)
    mark = chat.last_answer.get_by_test_id("cite")
    expect(mark).to_have_accessible_name("Source 1: boat.md")
    expect(mark).to_have_attribute("data-side", "private")
    card = page.get_by_test_id("passage-card")
    mark.hover()
    expect(card).to_contain_text("The oar hangs behind the red door.")
    expect(card.locator("mark").filter(has_text="hangs")).to_be_visible()
    page.mouse.move(2, 2)
    expect(card).to_be_hidden()
    mark.hover()
    expect(card).to_be_visible()
    page.get_by_test_id("prompt").press("Escape")
    expect(card).to_be_hidden()
    page.mouse.move(2, 2)
    mark.focus()
    expect(card).to_be_visible()
    card.get_by_role("button").focus()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(mark).to_be_focused()
    mark.press("Enter")
    view = page.get_by_test_id("preview-text")
    expect(view.locator("mark")).to_have_text("The oar hangs behind the red door.")
    page.keyboard.press("Escape")
    # Neither numbers nor marks are words of the answer.
    assert not re.search(r"\d", chat.text())
    expect(chat.sources("private").first).to_have_attribute("data-used", "")


@pytest.mark.usefixtures("emptied")
def test_what_comes_near_is_listed_apart_from_what_it_rests_on(chat: ChatPage) -> None:
    chat.add("boat.md", NOTE)
    chat.add("shed.md", "The old paddle hangs in the shed.")
    chat.answered("Where does the oar hang?", private=True)
    expect(chat.sources()).to_have_count(1)
    # The only one that it rests on unfolds with the list.
    expect(chat.sources("private")).to_have_attribute("open", "")
    assert "red door" in chat.open_source(chat.sources("private"))
    near = chat.last_answer.get_by_test_id("sources.closest")
    expect(near).to_contain_text("Closest passages")
    expect(near.get_by_test_id("source")).to_contain_text("shed.md")


@pytest.mark.usefixtures("emptied")
def test_a_mark_opens_the_page_of_a_pdf_as_it_looks(chat: ChatPage) -> None:
    page = chat.page
    filling = "\n".join(f"{number}. The parties agree on item {number}." for number in range(40))
    dogs = "Dogs may be kept only with written consent."
    chat.add("lease.pdf", pdf("The lease of the mill.", f"{filling}\n{dogs}", "Signed in Bern."))
    chat.answered("When may dogs be kept?", private=True)
    chat.last_answer.get_by_test_id("cite").first.click()
    picture = page.get_by_test_id("page-picture")
    expect(picture).to_have_accessible_name("Page 2 of 3")
    view = page.get_by_test_id("preview-text")
    # The mark is in view: it is near the bottom of a page that is taller than the dialog.
    page.wait_for_function("(view) => view.scrollTop > 100", arg=view.element_handle())
    page.get_by_test_id("preview.next").click()
    expect(picture).to_have_accessible_name("Page 3 of 3")
    expect(page.get_by_test_id("preview.next")).to_be_disabled()
    page.get_by_test_id("as-text").click()
    expect(view.locator("mark")).to_have_text(dogs)
    page.get_by_test_id("as-it-looks").click()
    expect(picture).to_have_accessible_name("Page 2 of 3")


def test_a_finger_taps_for_the_card_and_again_for_the_passage(
    opened: Opened, device: Service
) -> None:
    size = {"width": 360, "height": 740}
    chat = opened(device.url, viewport=size, has_touch=True, is_mobile=True)
    chat.wait_peer("connected")
    chat.answered("What is the capital of Kenya?")
    mark = chat.last_answer.get_by_test_id("cite").first
    expect(mark).to_have_attribute("data-side", "public")
    mark.tap()
    card = chat.page.get_by_test_id("passage-card")
    expect(card).to_contain_text("Nairobi")
    card.get_by_role("button", name="Show the passage").tap()
    expect(card).to_be_hidden()
    expect(chat.last_answer.get_by_test_id("passage").first).to_be_visible()
