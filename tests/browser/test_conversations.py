"""Conversations: kept, found, named, exported and deleted; branches; a reload in mid-answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import Scripted, signed_in

LONG = "A sentence of the answer goes on and on here. " * 12


def test_the_list_finds_renames_exports_and_deletes(page: Page, scripted: Scripted) -> None:
    chat = signed_in(page, scripted.url)
    scripted.generation.script = "Philomena keeps the opal."
    chat.ask("Who keeps the stone?")
    chat.wait_answer()
    expect(page.get_by_role("heading", level=1)).to_have_text("Who keeps the stone?")
    chat.new_chat()
    scripted.generation.script = "Bread needs flour."
    chat.ask("How is bread made?")
    chat.wait_answer()
    expect(chat.conversations.first).to_contain_text("How is bread made?")

    page.get_by_test_id("search").fill("philomena")
    expect(chat.conversations).to_have_count(1)
    expect(chat.conversations).to_contain_text("keeps the opal")
    page.get_by_test_id("search").fill("")
    expect(chat.conversations.filter(has_text="bread")).to_have_count(1)

    chat.menu("Who keeps", "rename")
    page.get_by_test_id("title-input").fill("Gems")
    page.keyboard.press("Enter")
    gems = chat.conversations.filter(has_text="Gems")
    expect(gems).to_have_count(1)

    for kind, needle in (("export-markdown", "# Gems"), ("export-json", '"title": "Gems"')):
        with page.expect_download() as download:
            chat.menu("Gems", kind)
        assert needle in Path(download.value.path()).read_text()

    gems.get_by_text("Gems").click()
    expect(chat.answers).to_contain_text("Philomena")
    chat.menu("Gems", "delete-conversation")
    page.get_by_test_id("confirm-delete").click()
    expect(gems).to_have_count(0)
    expect(chat.answers).to_have_count(0)


def test_older_conversations_are_shown_on_demand(page: Page, scripted: Scripted) -> None:
    """The device lists so many at once; here it is asked for two."""
    page.route(
        re.compile(r"/api/conversations\?"),
        lambda route: route.continue_(url=f"{route.request.url}&limit=2"),
    )
    chat = signed_in(page, scripted.url)
    titles = [f"Question number {number}?" for number in range(5)]
    for title in titles:
        chat.new_chat()
        chat.ask(title)
        chat.wait_answer()
    page.reload()
    expect(chat.conversations).to_have_count(2)
    page.get_by_test_id("older").click()
    expect(chat.conversations).to_have_count(4)
    page.get_by_test_id("older").click()
    expect(chat.conversations.nth(4)).to_be_visible()
    found = chat.conversations.locator(".conversation-title").all_inner_texts()
    assert found[:5] == titles[::-1]


def test_another_answer_and_an_edited_question_are_branches(page: Page, scripted: Scripted) -> None:
    chat = signed_in(page, scripted.url)
    for number, text in enumerate(("First answer.", "Second answer.")):
        scripted.generation.script = text
        if number:
            chat.last_answer.get_by_test_id("again").click()
        else:
            chat.ask("A question?")
        expect(chat.last_answer).to_contain_text(text)
        chat.wait_answer()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")
    chat.last_answer.get_by_test_id("branch-back").click()
    expect(chat.last_answer).to_contain_text("First answer.")

    scripted.generation.script = "Answer to the edited one."
    page.get_by_test_id("question").hover()
    page.get_by_test_id("edit").click()
    page.get_by_test_id("edit-text").fill("An edited question?")
    page.get_by_test_id("edit-send").click()
    expect(chat.last_answer).to_contain_text("edited one")
    chat.wait_answer()
    question = page.get_by_test_id("question")
    expect(question).to_have_count(1)
    expect(question.get_by_test_id("branches")).to_have_text("2/2")

    page.reload()
    expect(chat.last_answer).to_contain_text("edited one")
    question.get_by_test_id("branch-back").click()
    expect(question).to_contain_text("A question?")
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")


def test_a_reload_in_mid_answer_reads_on(page: Page, scripted: Scripted) -> None:
    scripted.generation.script, scripted.generation.delay = LONG, 0.02
    before = scripted.generation.cancelled
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Tell me everything.")
    chat.wait_text(answer)
    page.reload()
    expect(chat.last_answer).to_have_attribute("data-state", "streaming")
    expect(page.get_by_test_id("stop")).to_be_visible()
    assert chat.wait_answer() == "done"
    assert " ".join(chat.text().split()) == LONG.strip()
    assert scripted.generation.cancelled == before


def test_stop_and_continue(page: Page, scripted: Scripted) -> None:
    scripted.generation.script, scripted.generation.delay = LONG, 0.02
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Tell me everything.")
    chat.wait_text(answer)
    page.keyboard.press("Escape")
    assert chat.wait_answer(answer) == "stopped"
    written = chat.text(answer).strip()
    scripted.generation.script, scripted.generation.delay = " The very end.", 0
    answer.get_by_test_id("continue").click()
    expect(answer).to_contain_text("The very end.")
    assert chat.wait_answer(answer) == "done"
    assert chat.text(answer).strip().startswith(written)


def test_an_error_says_what_to_do_and_asks_again(page: Page, scripted: Scripted) -> None:
    scripted.generation.fail_after = 2
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Does it work?")
    assert chat.wait_answer(answer) == "error"
    expect(answer.get_by_role("alert")).to_contain_text("Something went wrong")
    scripted.generation.fail_after = None
    answer.get_by_test_id("remedy").click()
    expect(chat.last_answer).to_have_attribute("data-state", "done")


def test_tables_and_code_are_drawn_and_code_is_copied(page: Page, scripted: Scripted) -> None:
    scripted.generation.script = (
        "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\ndef f():\n    return 1\n```\n"
    )
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Show me.")
    chat.wait_answer(answer)
    expect(answer.get_by_role("cell", name="2")).to_be_visible()
    keyword = answer.locator(".code .k").first
    plain = answer.locator(".code code")
    assert keyword.evaluate("e => getComputedStyle(e).color") != plain.evaluate(
        "e => getComputedStyle(e).color"
    )
    answer.get_by_test_id("copy-code").click()
    page.wait_for_function(
        "async () => (await navigator.clipboard.readText()) === 'def f():\\n    return 1\\n'"
    )
    answer.get_by_test_id("copy").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('| a |')")


def test_settings_go_with_the_question_and_stay(page: Page, scripted: Scripted) -> None:
    chat = signed_in(page, scripted.url)
    page.keyboard.press("Escape")
    page.get_by_test_id("open-settings").click()
    expect(page.get_by_test_id("model-facts")).to_contain_text("32,768 tokens")
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Seed").fill("42")
    page.get_by_label("Documents a side").fill("3")
    page.get_by_test_id("mode").select_option("local")
    page.get_by_text("Dark", exact=True).click()
    page.keyboard.press("Escape")
    page.reload()
    assert page.evaluate("() => getComputedStyle(document.body).colorScheme") == "dark"
    chat.ask("What now?")
    chat.wait_answer()
    request = scripted.generation.requests[-1]
    assert (request.sampling.temperature, request.sampling.seed) == (0.7, 42)
    assert (request.top_k, request.mode) == (3, "local")


def test_everything_by_the_keyboard(page: Page, scripted: Scripted) -> None:
    chat = signed_in(page, scripted.url)
    expect(page.get_by_test_id("prompt")).to_be_focused()
    page.keyboard.type("By keyboard?")
    page.keyboard.press("Enter")
    chat.wait_answer()
    page.locator("body").press("Tab")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    expect(page.get_by_role("tabpanel", name="Writing")).to_be_visible()
    page.keyboard.press("l")
    page.keyboard.press("e")
    expect(page.get_by_test_id("edit-text")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("edit")).to_be_focused()
    page.keyboard.press("n")
    expect(chat.answers).to_have_count(0)
    expect(page.get_by_test_id("prompt")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.get_by_test_id("search")).to_be_focused()
    # Every conversation can be reached and opened.
    page.keyboard.press("Tab")
    assert re.search("conversation", page.evaluate("() => document.activeElement.className"))
    page.keyboard.press("Enter")
    expect(chat.answers).to_have_count(1)
    assert json.loads(page.evaluate("() => JSON.stringify(document.activeElement.id)")) == "prompt"
