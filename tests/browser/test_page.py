"""The way through the page, in Chromium against both real services."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from bench.services import Service
from tests.app.conftest import wait_until
from tests.browser.conftest import Pair, signed_in
from tests.browser.page import ChatPage

NOTE = "The code of the bicycle shed is 4471-KX. Marta has the spare key of the flat."


def test_upload_ask_see_the_source_and_delete(chat: ChatPage, tmp_path: Path) -> None:
    note = tmp_path / "shed.txt"
    note.write_text(NOTE)
    chat.wait_peer("connected")
    chat.upload(note)
    assert chat.wait_document("shed.txt") == "processed"
    answer = chat.ask("What is the code of the bicycle shed?")
    assert chat.wait_answer(answer) == "done"
    assert chat.text(answer).strip()
    assert "4471-KX" in chat.open_source(chat.sources("private", answer).first)
    chat.delete("shed.txt")
    chat.ask("What is the code of the bicycle shed?")
    chat.wait_answer()
    assert chat.sources("private").count() == 0


def test_from_nothing_to_an_answer_in_three_clicks(page: Page, device: Service) -> None:
    chat = signed_in(page, device.url)
    page.get_by_test_id("start-sample").click()
    page.get_by_test_id("start-question").first.click()
    assert chat.wait_answer() == "done"
    assert "heron-42-lantern" in chat.text()
    assert "heron-42-lantern" in chat.open_source(chat.sources("private").first)
    chat.delete("The cabin by the lake.md")


def test_stop_keeps_what_is_written_and_frees_both_sides(page: Page, endless_device: Pair) -> None:
    chat = signed_in(page, endless_device.device.url)
    answer = chat.ask("Tell me everything.")
    chat.wait_text(answer)
    chat.stop()
    assert chat.state(answer) == "stopped"
    assert chat.text(answer).strip()
    wait_until(lambda: endless_device.device.metric("dragon_answers_in_progress") == 0)
    wait_until(lambda: endless_device.peer.metric("dragon_peer_sessions") == 0)


def test_losing_the_cloud_shows_as_a_seam_and_its_return_too(
    page: Page, endless_device: Pair
) -> None:
    chat = signed_in(page, endless_device.device.url)
    chat.wait_peer("connected")
    answer = chat.ask("Tell me everything.")
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
    expect(chat.page.get_by_test_id("question")).to_contain_text("Kept on this device")
    answer.get_by_test_id("left").click()
    expect(chat.page.get_by_test_id("ledger")).to_contain_text("Nothing left this device")


def test_without_the_link_the_page_says_how_to_sign_in(page: Page, device: Service) -> None:
    page.goto(device.url)
    assert "dragon key" in page.content()
