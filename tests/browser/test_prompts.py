"""Ready-made questions behind a slash, answers read aloud, and a chat on paper."""

from __future__ import annotations

from pathlib import Path

import pypdfium2
from playwright.sync_api import Page, expect

from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import ChatPage

# A browser with one voice of its own and one that is elsewhere.
_VOICES = """
  const said = window.said = [];
  const voices = [
    { name: "Far", lang: "en-US", localService: false },
    { name: "Near", lang: "en-GB", localService: true },
  ];
  window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
  Object.defineProperty(window, "speechSynthesis", { value: {
    speaking: false,
    getVoices: () => voices,
    speak(each) { said.push([each.voice.name, each.text]); this.speaking = true; },
    cancel() { this.speaking = false; },
  } });
"""


def test_a_slash_lists_prompts_that_keys_choose(page: Page, scripted: Scripted) -> None:
    signed_in(page, scripted.url)
    prompt, items = page.get_by_test_id("prompt"), page.get_by_test_id("prompt-item")
    prompt.press_sequentially("/")
    expect(items).to_have_count(10)
    prompt.press_sequentially("dead")
    expect(items).to_have_text(["What are the key dates and deadlines?"])
    prompt.press("Enter")
    expect(prompt).to_have_value("What are the key dates and deadlines?")
    expect(prompt).to_be_focused()
    expect(page.get_by_test_id("prompts")).to_be_hidden()
    prompt.fill("/")
    prompt.press("ArrowDown")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(prompt).to_have_value("What are the key dates and deadlines?")
    prompt.fill("/")
    prompt.press("Escape")
    expect(page.get_by_test_id("prompts")).to_be_hidden()
    expect(page.get_by_test_id("answer")).to_have_count(0)


def test_one_s_own_prompt_is_kept_and_removed(page: Page, scripted: Scripted) -> None:
    signed_in(page, scripted.url)
    prompt, items = page.get_by_test_id("prompt"), page.get_by_test_id("prompt-item")
    prompt.fill("/List what the guests must bring.")
    page.get_by_test_id("keep-prompt").click()
    expect(prompt).to_have_value("List what the guests must bring.")
    page.reload()
    prompt.press_sequentially("/guest")
    expect(items).to_have_text(["List what the guests must bring."])
    page.get_by_test_id("remove-prompt").click()
    expect(prompt).to_be_focused()
    expect(items).to_have_count(0)


def test_a_question_that_begins_with_a_slash_is_asked(page: Page, scripted: Scripted) -> None:
    chat = signed_in(page, scripted.url)
    prompt = page.get_by_test_id("prompt")
    prompt.press_sequentially("/etc/hosts: what is it?")
    prompt.press("Enter")
    expect(page.locator(".bubble")).to_have_text("/etc/hosts: what is it?")
    expect(page.get_by_test_id("prompts")).to_be_hidden()
    chat.wait_answer()


def test_an_answer_is_read_by_a_voice_of_this_device(page: Page, scripted: Scripted) -> None:
    page.add_init_script(_VOICES)
    scripted.generation.script = "The **boat** is old.\n\nIt floats."
    chat = signed_in(page, scripted.url)
    chat.answered("How is the boat?")
    chat.last_answer.get_by_test_id("more").click()
    page.get_by_test_id("aloud").click()
    assert page.evaluate("said") == [["Near", "The boat is old."], ["Near", "It floats."]]
    chat.last_answer.get_by_test_id("more").click()
    page.get_by_test_id("hush").click()
    assert not page.evaluate("speechSynthesis.speaking")


def test_without_a_voice_of_its_own_nothing_is_offered(page: Page, scripted: Scripted) -> None:
    page.add_init_script(_VOICES.replace("localService: true", "localService: false"))
    chat = signed_in(page, scripted.url)
    chat.answered("How is the boat?")
    chat.last_answer.get_by_test_id("more").click()
    expect(page.get_by_test_id("print")).to_be_visible()
    expect(page.get_by_test_id("aloud")).to_have_count(0)


def test_paper_has_the_chat_with_its_passages_and_nothing_to_press(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    chat.add("boat.txt", "The boat is kept in the shed until spring.\n")
    chat.answered("Where is the boat kept?", private=True)
    chat.page.pdf(path=tmp_path / "chat.pdf")
    with pypdfium2.PdfDocument(tmp_path / "chat.pdf") as paper:
        said = " ".join(page.get_textpage().get_text_bounded() for page in paper)
    assert "Where is the boat kept?" in said
    assert "boat.txt" in said
    assert said.count("kept in the shed until spring.") == 2  # the answer, and its passage
    for part in ("Settings", "New chat", "Send", "Documents"):
        assert part not in said
    sources = chat.last_answer.get_by_test_id("sources")
    expect(sources).not_to_have_attribute("open", "")
