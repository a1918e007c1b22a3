"""Older conversations, errors, and all of it by the keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import ChatPage


def test_older_conversations_are_shown_on_demand(chat: ChatPage) -> None:
    """The device lists so many at once; here it is asked for one."""
    page = chat.page
    page.route(
        re.compile(r"/api/conversations\?"),
        lambda route: route.continue_(url=f"{route.request.url}&limit=1"),
    )
    titles = [f"Question number {number}?" for number in range(3)]
    for title in titles:
        chat.new_chat()
        chat.answered(title, private=True)
    page.reload()
    expect(chat.conversations).to_have_count(1)
    page.get_by_test_id("older").click()
    expect(chat.conversations).to_have_count(2)
    page.get_by_test_id("older").click()
    expect(chat.conversations.nth(2)).to_be_visible()
    found = chat.conversations.locator(".conversation-title").all_inner_texts()
    assert found[:3] == titles[::-1]


def test_an_error_says_what_to_do_and_asks_again(page: Page, scripted: Scripted) -> None:
    scripted.generation.fail_after = 2
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Does it work?")
    assert chat.wait_answer(answer) == "error"
    expect(answer.get_by_role("alert")).to_contain_text("Something went wrong")
    scripted.generation.fail_after = None
    answer.get_by_test_id("remedy").click()
    expect(chat.last_answer).to_have_attribute("data-state", "done")


def test_everything_by_the_keyboard(chat: ChatPage) -> None:
    page = chat.page
    expect(page.get_by_test_id("prompt")).to_be_focused()
    page.keyboard.type("By keyboard?")
    page.keyboard.press("Enter")
    chat.wait_answer()
    page.evaluate("() => document.activeElement.blur()")
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
    assert page.evaluate("() => document.activeElement.id") == "prompt"
