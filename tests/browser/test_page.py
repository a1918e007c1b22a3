"""The way through the page, in Chromium against both real services."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from harness.services import KEY, Service
from tests.browser.conftest import Opened, Pair, signed_in
from tests.browser.page import ChatPage

NOTE = "The code of the bicycle shed is 4471-KX. Marta has the spare key of the flat."


def test_upload_ask_see_the_source_and_delete(chat: ChatPage) -> None:
    chat.wait_peer("connected")
    assert chat.add("shed.txt", NOTE) == "processed"
    answer = chat.ask("What is the code of the bicycle shed?")
    assert chat.wait_answer(answer) == "done"
    assert chat.text(answer).strip()
    assert "4471-KX" in chat.open_source(chat.sources("private", answer).first)
    chat.delete("shed.txt")
    chat.answered("What is the code of the bicycle shed?")
    assert chat.sources("private").count() == 0


def test_what_is_asked_while_a_deletion_is_read_back_is_answered(chat: ChatPage) -> None:
    chat.add("shed.txt", NOTE)
    chat.answered("What is the code of the bicycle shed?")
    held: list[Route] = []
    conversation = re.compile(r"/api/conversations/[^/?]+$")
    chat.page.route(conversation, lambda route: held.append(route), times=1)
    with chat.page.expect_request(conversation):
        chat.delete("shed.txt")
    chat.page.get_by_test_id("prompt").fill("And of the cellar?")
    chat.page.get_by_test_id("send").click()
    held[0].continue_()
    answer = chat.answers.nth(1)
    assert chat.wait_answer(answer) == "done"
    expect(chat.answers).to_have_count(2)
    expect(chat.answers.first).not_to_contain_text("4471-KX")


def test_from_nothing_to_an_answer_in_three_clicks(page: Page, device: Service) -> None:
    chat = signed_in(page, device.url)
    page.get_by_test_id("start-sample").click()
    page.get_by_test_id("start-question").first.click()
    assert chat.wait_answer() == "done"
    assert "heron-42-lantern" in chat.text()
    assert "heron-42-lantern" in chat.open_source(chat.sources("private").first)
    chat.delete("The cabin by the lake.md")


def test_a_stopped_answer_goes_on_in_private(page: Page, endless_device: Pair) -> None:
    chat = signed_in(page, endless_device.device.url)
    chat.wait_peer("connected")
    answer = chat.ask("Where is the key?")
    chat.wait_text(answer)
    chat.open_panel("live")
    expect(page.get_by_test_id("live")).to_contain_text("Being written.")
    chat.stop()
    expect(chat.last_answer.get_by_test_id("summary")).to_contain_text("Stopped")
    written = chat.text()
    page.get_by_test_id("private-switch").check()
    chat.last_answer.get_by_test_id("continue").click()
    page.wait_for_function(
        "(size) => document.querySelector('[data-testid=answer-text]').textContent.length > size",
        arg=len(written) + 20,
    )
    chat.stop()
    begun = "Started with the cloud, finished privately"
    expect(chat.last_answer.get_by_test_id("summary")).to_contain_text(begun)
    page.reload()
    expect(chat.last_answer.get_by_test_id("summary")).to_contain_text(begun)
    chat.last_answer.get_by_test_id("summary").click()
    expect(page.get_by_test_id("sent")).to_contain_text("your question")


def test_losing_the_cloud_shows_as_a_seam_and_its_return_too(
    page: Page, endless_device: Pair
) -> None:
    chat = signed_in(page, endless_device.device.url)
    chat.wait_peer("connected")
    answer = chat.ask("Where is the key?")
    chat.wait_text(answer)
    endless_device.peer.kill()
    answer.get_by_test_id("seam").wait_for()
    assert chat.seams(answer) == [False]
    chat.wait_peer("connecting")
    with endless_device.peer_again():
        chat.wait_peer("connected")
        expect(answer.get_by_test_id("seam")).to_have_count(2)
        assert chat.seams(answer) == [False, True]
        chat.stop()
        page.reload()
        expect(chat.last_answer.get_by_test_id("seam")).to_have_count(2)


def test_a_private_question_has_no_public_source(chat: ChatPage) -> None:
    answer = chat.ask("What is the capital of Kenya?", private=True)
    assert chat.wait_answer(answer) == "done"
    assert chat.sources("public", answer).count() == 0
    expect(chat.page.get_by_test_id("question")).to_contain_text("Private")
    answer.get_by_test_id("summary").click()
    expect(chat.page.get_by_test_id("ledger")).to_contain_text("Nothing left this device")


def test_without_the_link_the_page_asks_for_the_key(page: Page, device: Service) -> None:
    page.goto(device.url)
    assert "dragon key" in page.content()
    page.get_by_label("API key").fill("guessed")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("This is not the key of this device.")).to_be_visible()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    ChatPage(page).wait_peer("connected")
    page.get_by_test_id("open-settings").click()
    page.get_by_test_id("sign-out").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_first_answer_by_the_keyboard_alone(chat: ChatPage) -> None:
    page, key = chat.page, chat.page.keyboard
    chat.wait_peer("connected")
    expect(page.get_by_test_id("prompt")).to_be_focused()
    key.type("What is the capital of Kenya?")
    key.press("Enter")
    assert chat.wait_answer() == "done"
    assert "Nairobi" in chat.text()
    expect(page.get_by_test_id("prompt")).to_be_focused()
    fold = chat.last_answer.get_by_test_id("sources").locator("> summary")
    for _ in range(30):
        key.press("Shift+Tab")
        if fold.evaluate("e => e === document.activeElement"):
            break
    key.press("Enter")
    source = chat.sources("public").first
    if source.get_attribute("open") is None:  # the only one opens by itself
        key.press("Tab")
        key.press("Enter")
    expect(source.get_by_test_id("passage")).to_contain_text("Nairobi")
    key.press("p")
    expect(page.get_by_test_id("cloud-share")).to_be_visible()
    key.press("p")
    for letter, panel in (("d", "documents"), ("l", "live"), ("w", "ledger")):
        key.press(letter)
        expect(page.locator(f"#panel-{panel}")).to_be_visible()
    key.press("w")
    key.press("?")
    sheet = page.get_by_role("dialog", name="Keyboard")
    for words in ("New chat", "Turn Private on or off", "Search chats", "What was sent"):
        expect(sheet).to_contain_text(words)
    key.press("Escape")
    key.press("x")
    expect(page.get_by_test_id("private-switch")).to_be_checked()
    key.press("x")


def test_a_conversation_is_branched_found_named_exported_and_deleted(chat: ChatPage) -> None:
    page = chat.page
    chat.wait_peer("connected")
    chat.answered("What is the capital of Kenya?")
    chat.last_answer.get_by_test_id("again").click()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")
    chat.wait_answer()
    question = page.get_by_test_id("question")
    question.hover()
    page.get_by_test_id("edit").click()
    page.get_by_test_id("edit-text").fill("What is the currency of Vietnam?")
    page.get_by_test_id("edit-send").click()
    expect(question.get_by_test_id("branches")).to_have_text("2/2")
    assert chat.wait_answer() == "done"
    assert "dong" in chat.text()
    page.reload()
    expect(chat.last_answer).to_contain_text("dong")
    question.get_by_test_id("branch-back").click()
    expect(question).to_contain_text("capital of Kenya")
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")

    page.get_by_test_id("search").fill("dong")
    expect(chat.conversations.first.locator(".conversation-found")).to_contain_text("dong")
    page.get_by_test_id("search").fill("nothing of the kind")
    expect(page.get_by_test_id("conversations")).to_contain_text("Nothing found")
    page.get_by_test_id("search").fill("")
    chat.menu("capital of Kenya", "rename")
    page.get_by_test_id("title-input").fill("Capitals")
    page.keyboard.press("Enter")
    capitals = chat.conversations.filter(has_text="Capitals")
    expect(capitals).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Capitals")
    for kind, needles in (
        ("export-markdown", ("# Capitals", "Nairobi", "Kenya (public)")),
        ("export-json", ('"title": "Capitals"', "dong", '"side": "public"')),
    ):
        with page.expect_download() as download:
            chat.menu("Capitals", kind)
        exported = Path(download.value.path()).read_text()
        for needle in needles:
            assert needle in exported
    chat.menu("Capitals", "delete-conversation")
    page.get_by_test_id("confirm-delete").click()
    expect(capitals).to_have_count(0)
    expect(chat.answers).to_have_count(0)


def test_settings_reach_the_services_and_stay(chat: ChatPage) -> None:
    page = chat.page
    chat.wait_peer("connected")
    page.get_by_test_id("open-settings").click()
    expect(page.get_by_test_id("model-now")).to_contain_text("dragon-7m")
    expect(page.get_by_test_id("model-facts")).to_contain_text("2,048 tokens")
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Seed").fill("42")
    page.get_by_label("Passages each from device and cloud").fill("1")
    page.get_by_test_id("mode").select_option("coupled")
    page.get_by_text("Dark", exact=True).click()
    page.keyboard.press("Escape")
    page.reload()
    assert page.evaluate("() => getComputedStyle(document.body).colorScheme") == "dark"
    chat.wait_peer("connected")
    answer = chat.ask("What is the capital of Kenya?")
    assert chat.wait_answer(answer) == "done"
    assert chat.sources("public", answer).count() == 1
    facts = chat.how_written(answer).locator("dl.facts")
    for term, value in (("Mode", "coupled"), ("Temperature", "0.7"), ("Seed", "42")):
        expect(
            facts.locator("dt").get_by_text(term, exact=True).locator("+ dd").first
        ).to_have_text(value)


def test_a_question_that_is_too_long_says_so_and_is_edited(chat: ChatPage) -> None:
    answer = chat.ask("word " * 3000)
    assert chat.wait_answer(answer) == "error"
    expect(answer.get_by_role("alert")).to_contain_text("The question is too long.")
    answer.get_by_test_id("remedy").click()
    chat.page.get_by_test_id("edit-text").fill("What is the capital of Kenya?")
    chat.page.keyboard.press("Enter")
    expect(chat.last_answer).to_have_attribute("data-state", "done")
    assert "Nairobi" in chat.text()


def test_all_fits_on_a_phone(opened: Opened, device: Service) -> None:
    chat = opened(device.url, viewport={"width": 360, "height": 740}, has_touch=True)
    page = chat.page

    def fits() -> bool:
        return bool(page.evaluate("() => document.scrollingElement.scrollWidth <= innerWidth"))

    answer = chat.answered("What is the capital of Kenya?")
    assert "Nairobi" in chat.open_source(chat.sources("public", answer).first)
    assert fits()
    for opener in (page.get_by_test_id("open-documents"), answer.get_by_test_id("summary")):
        opener.tap()
        box = page.locator("#inspector").bounding_box()
        assert box is not None
        assert (box["x"], box["width"]) == (0, 360)
        page.locator("#inspector-close").tap()
        expect(page.locator("#inspector")).to_be_hidden()
    page.locator("#sidebar-open").tap()
    expect(chat.conversations.first).to_be_visible()
    chat.conversations.first.locator(".conversation-open").tap()
    expect(page.locator("#sidebar")).not_to_have_class("sidebar is-open")
    expect(chat.answers).to_have_count(1)
    assert fits()
