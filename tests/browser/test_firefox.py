"""The main ways through the page in Firefox, the one of the distribution, by WebDriver BiDi."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Playwright, expect

from harness.services import Service
from tests.browser.conftest import signed_in
from tests.browser.page import ChatPage

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

pytestmark = pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed")


@pytest.fixture(scope="module")
def firefox(playwright: Playwright) -> Iterator[Browser]:
    try:
        running = playwright.firefox.launch(channel="moz-firefox", executable_path=FIREFOX)
    except Error as error:
        if "(network.addDataCollector): unknown command" not in str(error):
            raise
        pytest.xfail("this Firefox is older than the WebDriver BiDi that Playwright speaks")
    yield running
    running.close()


@pytest.fixture
def chat(firefox: Browser, device: Service) -> Iterator[ChatPage]:
    context = firefox.new_context(viewport={"width": 1280, "height": 900})
    yield signed_in(context.new_page(), device.url)
    context.close()


def test_from_a_document_to_an_answer_and_its_redaction(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    page = chat.page
    note = tmp_path / "shed.txt"
    note.write_text("The code of the bicycle shed is 4471-KX.")
    chat.wait_peer("connected")
    chat.upload(note)
    assert chat.wait_document("shed.txt") == "processed"
    answer = chat.ask("What is the code of the bicycle shed?", private=True)
    assert chat.wait_answer(answer) == "done"
    assert "4471-KX" in chat.open_source(chat.sources("private", answer).first)
    answer.get_by_test_id("left").click()
    expect(page.get_by_test_id("ledger")).to_contain_text("Nothing left this device")
    answer.get_by_test_id("provenance").click()
    expect(answer.get_by_test_id("cloud-share")).to_be_visible()
    chat.open_panel("documents")
    chat.document("shed.txt").get_by_test_id("delete-document").click()
    page.get_by_test_id("confirm-check").check()
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("receipt")).to_contain_text("redacted")
    expect(answer.get_by_test_id("answer-text")).not_to_contain_text("4471")


def test_a_public_answer_a_reload_settings_and_a_project(chat: ChatPage) -> None:
    page = chat.page
    chat.wait_peer("connected")
    chat.wait_answer(chat.ask("What is the capital of Kenya?"))
    assert "Nairobi" in chat.text()
    page.reload()
    expect(chat.last_answer).to_contain_text("Nairobi")
    page.get_by_test_id("open-settings").click()
    expect(page.get_by_test_id("model-now")).to_contain_text("dragon-7m")
    page.keyboard.press("Escape")
    page.get_by_test_id("search").fill("nairo")
    expect(chat.conversations.first.locator("mark").first).to_have_text("Nairobi")
    page.get_by_test_id("search").fill("")
    page.get_by_test_id("new-project").click()
    page.get_by_test_id("project-name").fill("Fox")
    page.get_by_test_id("project-save").click()
    row = page.get_by_test_id("project-row")
    expect(row).to_contain_text("Fox")
    row.hover()
    row.get_by_test_id("project-menu").click()
    page.get_by_test_id("project-delete").click()
    page.get_by_test_id("confirm-delete").click()
    expect(row).to_have_count(0)
