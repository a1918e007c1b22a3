"""A touch screen: nothing covers what one came to read, and nothing speaks of keys or a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from harness.services import Service
from tests.browser.conftest import Opened
from tests.browser.page import ChatPage


@pytest.fixture
def phone(opened: Opened, device: Service) -> ChatPage:
    size = {"width": 390, "height": 740}
    return opened(device.url, viewport=size, has_touch=True, is_mobile=True)


def test_settings_are_left_for_the_chat_from_wherever_they_are_scrolled_to(
    phone: ChatPage,
) -> None:
    page = phone.page
    page.set_viewport_size({"width": 390, "height": 500})
    page.locator("#sidebar-open").tap()
    page.get_by_test_id("open-settings").tap()
    settings = page.locator("#settings")
    expect(page.get_by_test_id("model").first).to_be_visible()
    settings.evaluate("s => { s.scrollTop = s.scrollHeight }")
    assert settings.evaluate("s => s.scrollTop") > 100
    for shown in (page.locator("#settings-title"), settings.get_by_role("button", name="Close")):
        expect(shown).to_be_in_viewport(ratio=1)
    settings.get_by_role("button", name="Close").tap()
    expect(page.get_by_test_id("prompt")).to_be_in_viewport(ratio=1)
    expect(page.locator("#sidebar")).to_be_hidden()
    page.locator("#sidebar-open").tap()
    expect(page.locator("#sidebar")).to_be_visible()


def test_the_keyboard_comes_up_only_when_one_writes(phone: ChatPage) -> None:
    page = phone.page
    expect(page.get_by_test_id("prompt")).not_to_be_focused()
    page.locator("#sidebar-open").tap()
    page.get_by_test_id("new-chat").tap()
    expect(page.locator("#sidebar")).to_be_hidden()
    expect(page.get_by_test_id("prompt")).not_to_be_focused()


def test_a_new_chat_is_shown_from_its_beginning(phone: ChatPage) -> None:
    phone.page.set_viewport_size({"width": 390, "height": 400})  # less than the welcome needs
    phone.page.reload()
    phone.wait_peer("connected")
    scroll = phone.page.locator("#scroll")
    handle = scroll.element_handle()
    phone.page.wait_for_function("s => s.scrollHeight > s.clientHeight", arg=handle)
    assert scroll.evaluate("s => s.scrollTop") == 0
    phone.page.set_viewport_size({"width": 390, "height": 330})  # as a keyboard does
    expect(phone.page.locator(".welcome h2")).to_be_in_viewport()
    assert scroll.evaluate("s => s.scrollTop") == 0


def test_what_needs_a_mouse_or_keys_is_not_spoken_of(phone: ChatPage) -> None:
    phone.open_panel("documents")
    expect(phone.page.locator("#upload-button")).to_have_text("Add documents", use_inner_text=True)
    phone.page.locator("#inspector-close").tap()
    phone.page.locator("#sidebar-open").tap()
    expect(phone.page.locator("#open-help")).to_be_hidden()
    phone.page.get_by_test_id("open-settings").tap()
    expect(phone.page.get_by_test_id("cloud")).to_be_visible()
    expect(phone.page.locator("[name=keys]")).to_be_hidden()


@pytest.mark.usefixtures("emptied")
def test_with_a_mouse_a_question_can_be_typed_once_a_document_is_added(chat: ChatPage) -> None:
    chat.open_panel("documents")
    chat.page.locator("#upload-button").focus()
    chat.add("oar.txt", "The oar hangs behind the red door.\n")
    expect(chat.page.get_by_test_id("prompt")).to_be_focused()
