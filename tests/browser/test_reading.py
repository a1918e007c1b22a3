"""The page is easy to read: sizes, lines, contrast, what is folded and what is marked."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from harness.services import Service
from tests.browser.conftest import Opened, Pair, Scripted, signed_in
from tests.browser.page import ChatPage
from tests.samples import prose

NOTE = """# The *old* boat

It is **dry**.

- The oar hangs behind the red door.
- The rope is coiled.
"""
# The characters of each line of a paragraph but the last.
_LINES = """(paragraph) => {
  const range = new Range();
  const text = paragraph.firstChild;
  const lines = new Map();
  for (let at = 0; at < text.length; at++) {
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    const { top } = range.getBoundingClientRect();
    lines.set(top, (lines.get(top) ?? 0) + 1);
  }
  return [...lines.values()].slice(0, -1);
}"""
# The contrast of each kind of secondary text with each ground it may stand on.
_CONTRASTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const probe = document.body.appendChild(document.createElement("i"));
  const light = (name) => {
    probe.style.color = `var(--${name})`;
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) =>
      c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = {};
  for (const ink of ["ink-soft", "private", "public"]) {
    for (const ground of ["paper", "ground", "raised", "hover", "private-wash", "public-wash"]) {
      const [one, other] = [light(ink), light(ground)].sort((a, b) => b - a);
      found[`${ink} on ${ground}`] = (one + 0.05) / (other + 0.05);
    }
  }
  probe.remove();
  return found;
}"""


def test_text_has_sixteen_pixels_and_lines_of_seventy_characters(
    page: Page, scripted: Scripted
) -> None:
    scripted.generation.script = "It begins like this.\n\n" + prose(40).replace("\n", " ")
    chat = signed_in(page, scripted.url)
    chat.answered("Tell me.")
    paragraph = chat.last_answer.locator(".block p").last
    assert paragraph.evaluate("p => getComputedStyle(p).fontSize") == "16px"
    lines: list[int] = paragraph.evaluate(_LINES)
    assert len(lines) > 5
    assert 62 <= sum(lines) / len(lines) <= 75
    chat.page.set_viewport_size({"width": 360, "height": 740})
    assert paragraph.evaluate("p => getComputedStyle(p).fontSize") == "16px"


def test_secondary_text_is_well_above_the_least_contrast(page: Page, device: Service) -> None:
    signed_in(page, device.url)
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        contrasts: dict[str, float] = page.evaluate(_CONTRASTS)
        assert {name: ratio for name, ratio in contrasts.items() if ratio < 5} == {}, scheme


@pytest.mark.usefixtures("emptied")
def test_markdown_is_drawn_in_a_view_and_in_a_source(chat: ChatPage) -> None:
    page = chat.page
    chat.open_panel("documents")
    chat.add("boat.md", NOTE)
    chat.document("boat.md").get_by_test_id("preview-document").click()
    view = page.get_by_test_id("preview-text")
    expect(view.locator("h1 em")).to_have_text("old")
    expect(view.get_by_role("listitem")).to_have_count(2)
    page.keyboard.press("Escape")
    chat.answered("Where does the oar hang?", private=True)

    # One line, until it is opened; the only source opens with it.
    fold = chat.last_answer.get_by_test_id("sources")
    box = fold.bounding_box()
    assert box is not None
    assert box["height"] < 50
    expect(fold.locator("> summary")).to_contain_text("boat.md")
    source = chat.sources("private").first
    chat.open_source(source)
    expect(source.locator("strong")).to_have_text("dry")
    expect(source.locator("mark")).to_have_text("The oar hangs behind the red door.")
    # How long it took and what a passage weighed stand in the panel.
    summary = chat.last_answer.get_by_test_id("summary")
    expect(summary).to_have_text("Private")
    assert not re.search(r"\d%|\d s\b|\d\.\d", fold.inner_text())
    expect(chat.how_written().get_by_test_id("weight").first).to_contain_text("boat.md")


def test_what_a_search_finds_is_marked(chat: ChatPage) -> None:
    page = chat.page
    long = "Which of the many herons of the long lake slept here? " * 3
    chat.answered(long, private=True)
    chat.new_chat()
    title = chat.conversations.filter(has_text="herons").first.locator(".conversation-title")
    lines = title.evaluate("t => t.clientHeight / parseFloat(getComputedStyle(t).lineHeight)")
    assert 1.5 < lines < 2.5
    page.get_by_test_id("search").fill("HERON slept")
    found = chat.conversations.first
    expect(found.locator("mark").first).to_have_text(re.compile("herons|slept"))
    found.locator(".conversation-open").click()
    expect(page.get_by_test_id("question")).to_contain_text("herons")
    page.wait_for_function("() => CSS.highlights.get('found').size === 6")


def test_numbers_are_written_as_in_the_language(opened: Opened, telling_device: Pair) -> None:
    chat = opened(telling_device.device.url, locale="de-DE")
    page = chat.page
    page.get_by_test_id("open-settings").click()
    temperature = page.locator("#setting-temperature")
    expect(temperature).to_be_hidden()  # folded away, unless something of it is set
    page.get_by_test_id("advanced").locator("summary").click()
    expect(temperature).to_be_visible()
    expect(temperature).to_have_attribute("placeholder", "0,15")
    page.keyboard.press("Escape")
    chat.answered("Where is the key?")
    panel = chat.how_written()
    expect(panel.locator("dt", has_text="Temperatur").locator("+ dd")).to_have_text("0,15")
    assert not re.search(r"\d\.\d", panel.inner_text())


def test_on_a_phone_nothing_of_a_choice_is_cut(opened: Opened, device: Service) -> None:
    page = opened(device.url, viewport={"width": 360, "height": 740}, locale="de-DE").page
    page.locator("#sidebar-open").click()
    page.get_by_test_id("open-settings").click()
    # As wide as its longest option needs, were there room.
    for select in page.locator("#settings-form select").all():
        needed = select.evaluate(
            "s => { const copy = s.cloneNode(true); copy.style.width = 'max-content';"
            " s.after(copy); const width = copy.offsetWidth; copy.remove(); return width; }"
        )
        assert needed <= select.evaluate("s => s.offsetWidth")


def test_at_twice_its_size_most_of_a_page_is_the_chat(page: Page, device: Service) -> None:
    """A laptop's window of 1280 by 900 has 640 by 450 of the page's pixels then."""
    page.set_viewport_size({"width": 640, "height": 450})
    signed_in(page, device.url)
    height = page.locator("#scroll").evaluate("e => e.clientHeight")
    assert height > 280
    expect(page.get_by_role("button", name="All documents")).to_be_visible()
    assert page.evaluate("() => document.scrollingElement.scrollWidth <= innerWidth")


_MARKED = """([text, search]) => import("/static/js/chat/found.js").then((module) =>
  module.marked(text, search).map((piece) => piece.textContent ?? piece))"""


def test_a_hit_begins_a_little_before_the_word(modules: Page) -> None:
    before = "All of this stands long before what is sought and would hide the "
    found = modules.evaluate(_MARKED, [f"{before}herons", "heron"])
    assert found == ["…", "and would hide the ", "herons", ""]
    assert modules.evaluate(_MARKED, ["Some herons", "heron"]) == ["Some ", "herons", ""]
