"""An answer in Markdown that both real services write: drawn, stopped, read on, shaded.

Both sides know `answer.md` by heart, so what has to be on the page is known beforehand.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ANSWER, Pair, Scripted, signed_in
from tests.browser.page import SHADED, WATCH_SHIFTS, ChatPage
from tests.contract.asking import eventually

QUESTION = "Where is the key?"
# The words of an answer as they stand on the page; highlighted code is cut up further.
WORDS = """(text) => {
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  const words = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(".code-head")) words.push(...node.data.match(/\\S+/g) ?? []);
  }
  return words;
}"""


@pytest.fixture
def told(page: Page, telling_device: Pair) -> ChatPage:
    page.add_init_script("localStorage['dragon.settings'] ??= JSON.stringify({ temperature: '0' })")
    chat = signed_in(page, telling_device.device.url)
    chat.wait_peer("connected")
    return chat


def copied(chat: ChatPage) -> str:
    """The answer's own text, by its button."""
    chat.page.evaluate("() => navigator.clipboard.writeText('')")
    chat.last_answer.get_by_test_id("copy").click()
    chat.page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
    text: str = chat.page.evaluate("() => navigator.clipboard.readText()")
    return text


def until_code(chat: ChatPage) -> None:
    """Waits for the middle of the answer."""
    expect(chat.last_answer.locator(".code")).to_be_visible()
    expect(chat.last_answer).to_have_attribute("data-state", "streaming")


def test_markdown_is_drawn_while_both_sides_write_it(told: ChatPage) -> None:
    page = told.page
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate(WATCH_SHIFTS)
    answer = told.ask(QUESTION)
    until_code(told)
    expect(answer.get_by_role("cell", name="Heron")).to_be_visible()
    assert told.wait_answer(answer) == "done"
    shifts = page.evaluate("() => window.shifts")
    assert sum(value for value, *_ in shifts) < 0.01, shifts
    assert copied(told) == ANSWER.strip()
    expect(answer.get_by_test_id("summary")).to_contain_text("With the cloud")

    text = answer.get_by_test_id("answer-text")
    expect(text.get_by_role("heading", level=1)).to_have_text("The boat house")
    expect(text.locator("strong")).to_have_text("row out")
    expect(text.get_by_role("listitem")).to_have_text(["the oars are dry", "the rope is coiled"])
    expect(text.get_by_role("columnheader")).to_have_text(["Boat", "Seats"])
    expect(text.get_by_role("cell")).to_have_text(["Heron", "4", "Otter", "2"])
    code = text.locator(".code code")
    plain = code.evaluate("e => getComputedStyle(e).color")
    for kind in (".k", ".sd", ".c1"):
        assert code.locator(kind).first.evaluate("e => getComputedStyle(e).color") != plain
    answer.get_by_test_id("copy-code").click()
    source = ANSWER.partition("```python\n")[2].partition("```")[0]
    page.wait_for_function(
        "async (code) => (await navigator.clipboard.readText()) === code", arg=source
    )
    # The only link is the harmless one, and tags are words.
    expect(text.get_by_role("link")).to_have_attribute("href", "https://example.org/log")
    expect(text.locator("img, b")).to_have_count(0)
    expect(text).to_contain_text("says <b>no swimming</b> <img src=x onerror=window.hit=1> & means")
    assert page.evaluate("() => window.hit") is None

    told.how_written(answer)
    for side in ("device", "cloud"):
        expect(page.get_by_test_id(f"accept-{side}")).to_contain_text("100 %")
    told.about("who", answer)
    expect(page.get_by_test_id("cloud-share")).to_be_visible()
    shaded = page.evaluate(SHADED)
    words = [word for level in range(5) for word in shaded[f"cloud-{level}"]]
    assert sorted(words) == sorted(text.evaluate(WORDS))


def test_a_stopped_answer_frees_both_sides_and_goes_on(
    told: ChatPage, telling_device: Pair
) -> None:
    answer = told.ask(QUESTION)
    until_code(told)
    told.page.keyboard.press("Escape")
    assert told.wait_answer(answer) == "stopped"
    eventually(lambda: telling_device.device.metric("dragon_answers_in_progress") == 0)
    eventually(lambda: telling_device.peer.metric("dragon_peer_sessions") == 0)
    written = copied(told)
    assert ANSWER.startswith(written)
    assert len(written) < len(ANSWER.strip())
    answer.get_by_test_id("continue").click()
    expect(answer).to_have_attribute("data-state", "done")
    assert copied(told) == ANSWER.strip()


def test_a_reload_in_mid_answer_reads_on(told: ChatPage) -> None:
    told.ask(QUESTION)
    expect(told.last_answer.get_by_role("listitem").first).to_be_visible()
    told.page.reload()
    expect(told.last_answer).to_have_attribute("data-state", "streaming")
    expect(told.page.get_by_test_id("stop")).to_be_visible()
    assert told.wait_answer() == "done"
    assert copied(told) == ANSWER.strip()
    expect(told.last_answer.get_by_test_id("summary")).to_contain_text("With the cloud")


def test_motion_is_reduced(page: Page, telling_device: Pair) -> None:
    page.emulate_media(reduced_motion="reduce")
    chat = signed_in(page, telling_device.device.url)
    answer = chat.ask(QUESTION)
    chat.wait_text(answer)
    moving = "() => document.getAnimations().filter((e) => e.playState === 'running').length"
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) > 0, "else the check shows nothing"
    chat.stop()


@pytest.mark.parametrize(("begin", "end"), [("<think>\n", "\n</think>\n\n"), ("", "\n</think>\n")])
def test_what_a_model_thinks_is_folded(
    page: Page, scripted: Scripted, begin: str, end: str
) -> None:
    thought = "The person asks for the key.\n\nIt is in the note."
    scripted.generation.script = f"{begin}{thought}{end}The key is under the mat."
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Where is the key?")
    assert chat.wait_answer(answer) == "done"
    text = answer.get_by_test_id("answer-text")
    # Only what is said rests on something.
    expect(answer.get_by_test_id("cite")).to_have_count(1)
    for _ in range(2):
        assert text.inner_text().strip() == "The key is under the mat."
        answer.get_by_test_id("thoughts").click()
        expect(text.get_by_text("It is in the note.")).to_be_visible()
        assert "think>" not in text.inner_text()
        assert copied(chat) == "The key is under the mat."
        page.reload()
