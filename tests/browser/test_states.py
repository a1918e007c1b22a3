"""What the page says of the state of things is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from harness.services import Service
from tests.browser.conftest import signed_in
from tests.browser.page import ChatPage


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_the_header_says_on_which_rung_the_chat_is(chat: ChatPage) -> None:
    chat.wait_peer("connected")
    said = chat.peer_status
    expect(said).to_have_text("Cloud: always")  # as the tests' device is set
    chat.page.get_by_test_id("private-switch").check()
    expect(said).to_have_text("Private")
    expect(said).to_have_attribute("data-rung", "private")
    chat.page.get_by_test_id("private-switch").uncheck()
    chat.page.get_by_test_id("open-settings").click()
    chat.page.get_by_test_id("cloud").select_option("when_needed")
    chat.page.keyboard.press("Escape")
    expect(said).to_have_text("Cloud: when needed")
    chat.page.get_by_test_id("open-settings").click()
    chat.page.get_by_test_id("cloud").select_option("never")
    chat.page.keyboard.press("Escape")
    expect(said).to_have_text("Cloud off")
    expect(chat.page.get_by_test_id("private-switch")).to_be_checked()
    expect(chat.page.get_by_test_id("private-switch")).to_be_disabled()
    off = "the cloud is turned off in the settings"
    expect(chat.page.locator("#leaves-line")).to_contain_text(off)
    answer = chat.answered("What is the wingspan of the gull Emma?", private=True)
    expect(answer.get_by_test_id("summary")).to_be_visible()
    expect(answer.get_by_test_id("ask-cloud")).to_have_count(0)


def test_settings_opened_early_say_what_is_usual_once_it_is_known(
    context: BrowserContext, device: Service
) -> None:
    page = context.new_page()
    held: list[Route] = []
    page.route("**/api/status", lambda route: held.append(route))
    signed_in(page, device.url)
    page.get_by_test_id("open-settings").click()
    temperature = page.locator("#setting-temperature")
    expect(temperature).to_have_attribute("placeholder", "0")
    for each in held:
        each.continue_()
    expect(temperature).to_have_attribute("placeholder", "0.15")
    page.unroute_all(behavior="ignoreErrors")


def test_the_cloud_is_offered_after_a_miss_only_and_what_came_of_it_is_said(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    page = chat.page
    chat.wait_peer("connected")
    page.get_by_test_id("open-settings").click()
    page.get_by_test_id("cloud").select_option("when_needed")
    page.keyboard.press("Escape")
    chat.upload(write(tmp_path, "boat.txt", b"The boat is kept in the shed.\n"))
    answer = chat.answered("Where is the boat kept?")
    expect(answer).to_contain_text("in the shed")
    expect(answer.get_by_test_id("ask-cloud")).to_have_count(0)
    answer = chat.answered("What is the wingspan of the gull Emma?")
    expect(answer).to_contain_text("The public documents don’t seem to say either.")
    expect(answer.get_by_test_id("summary")).to_have_text("Cloud asked, nothing found")
    expect(answer.get_by_test_id("ask-cloud")).to_have_count(0)
    answer = chat.answered("What is the wingspan of the gull Emma?", private=True)
    expect(answer).to_contain_text("I couldn’t find this in your documents.")
    expect(answer.get_by_test_id("ask-cloud")).to_be_visible()


def test_the_same_answer_again_says_so_and_offers_another_passage(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    note = b"The lamp hangs under the stairs.\nThe boat was built in Kiel.\n"
    chat.upload(write(tmp_path, "house.txt", note))
    chat.answered("Where does the lamp hang?", private=True)
    chat.last_answer.get_by_test_id("again").click()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")
    chat.wait_answer()
    expect(chat.last_answer).to_contain_text("Same answer: this model can only quote")
    expect(chat.last_answer.get_by_test_id("ask-cloud")).to_have_count(0)
    chat.last_answer.get_by_test_id("other-passage").click()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("3/3")
    chat.wait_answer()
    expect(chat.last_answer.get_by_test_id("answer-text")).to_have_text(
        "The boat was built in Kiel."
    )


def test_a_deleted_document_is_redacted_in_what_is_stored(
    chat: ChatPage, context: BrowserContext, emptied: None, tmp_path: Path
) -> None:
    page = chat.page
    chat.upload(write(tmp_path, "gong.txt", b"The brass gong stands beside the linden.\n"))
    chat.answered("Where does the brass gong stand?", private=True)
    expect(chat.last_answer).to_contain_text("beside the linden")
    other = ChatPage(context.new_page())
    other.page.goto(page.url)
    expect(other.last_answer).to_contain_text("beside the linden")
    chat.open_panel("documents")
    chat.document("gong.txt").get_by_test_id("delete-document").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Your original file stays where it is.")
    expect(dialog.get_by_role("button")).to_have_text(["Cancel", "Delete"])
    quoted = dialog.get_by_label("Also remove what earlier chats quote")
    expect(quoted).to_be_checked()
    expect(dialog).to_contain_text("(1 message in 1 chat)")
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("receipt")).to_contain_text("Quotes were removed from 1 message.")
    for each in (chat, other):
        expect(each.last_answer.get_by_test_id("answer-text")).to_have_text(
            "[words of a deleted document]"
        )
        each.last_answer.get_by_test_id("sources").locator("summary").first.click()
        each.last_answer.get_by_test_id("source").click()
        expect(each.last_answer.get_by_test_id("passage")).to_contain_text("was deleted")


def test_what_could_not_be_read_stands_apart_under_its_own_name(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    chat.open_panel("documents")
    chat.upload(
        write(tmp_path, "good.txt", b"The boat is kept in the shed.\n"),
        write(tmp_path, "broken.docx", b"PK\x03\x04" + bytes(100)),
        write(tmp_path, "empty.txt", b""),
    )
    stored = chat.page.get_by_role("region", name="On this device")
    failed = chat.page.get_by_role("region", name="Could not be read")
    expect(stored.get_by_test_id("document")).to_have_count(1)
    expect(failed.get_by_test_id("document")).to_have_count(2)
    expect(chat.document("broken.docx")).to_contain_text("This .docx file is damaged")
    expect(chat.document("broken.docx").get_by_test_id("retry-document")).to_be_visible()
    expect(chat.document("empty.txt")).to_contain_text("The file is empty")


def test_dialogs_can_be_cancelled(chat: ChatPage, emptied: None, tmp_path: Path) -> None:
    page = chat.page
    note = write(tmp_path, "boat.txt", b"Nobody has asked of this boat.\n")
    chat.open_panel("documents")
    chat.upload(note)
    chat.document("boat.txt").get_by_test_id("delete-document").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Your original file stays where it is.")
    expect(dialog.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_test_id("confirm-cancel")).to_be_focused()
    page.get_by_test_id("confirm-cancel").click()
    expect(chat.documents).to_have_count(1)
    note.write_bytes(b"The boat is kept in the garage.\n")
    chat.upload(note, wait=False)
    expect(dialog).to_contain_text("Replace boat.txt?")
    page.get_by_test_id("confirm-cancel").click()
    expect(dialog).to_be_hidden()
    expect(chat.documents).to_have_count(1)
    chat.upload(note, wait=False)
    page.get_by_test_id("confirm-other").click()
    expect(chat.documents).to_have_count(2)


def test_two_tabs_of_a_chat_follow_each_other(
    chat: ChatPage, context: BrowserContext, device: Service
) -> None:
    chat.wait_peer("connected")
    chat.answered("What is the capital of Kenya?")
    other = ChatPage(context.new_page())
    other.page.goto(chat.page.url)
    expect(other.answers).to_have_count(1)
    chat.answered("What is the capital of Bhutan?")
    expect(other.answers).to_have_count(2)
    expect(other.last_answer).to_have_attribute("data-state", "done")
    assert other.text() == chat.text()
    other.menu("What is the capital of Kenya?", "rename")
    other.page.get_by_test_id("title-input").fill("Capitals")
    other.page.get_by_test_id("title-input").press("Enter")
    expect(chat.conversations.filter(has_text="Capitals")).to_have_count(1)
    other.menu("Capitals", "delete-conversation")
    other.page.get_by_test_id("confirm-delete").click()
    expect(chat.answers).to_have_count(0)


@pytest.mark.usefixtures("emptied")
def test_another_answer_has_a_seed_of_its_own_and_is_a_branch(chat: ChatPage) -> None:
    """The seed 5 is set in the settings; the first answer keeps it."""
    chat.wait_peer("connected")

    def seed() -> str:
        fact = chat.how_written().locator("dt", has_text="Seed")
        return fact.locator("+ dd").inner_text()

    chat.answered("What is the capital of Kenya?")
    assert seed() == "5"
    chat.last_answer.get_by_test_id("again").click()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("2/2")
    chat.wait_answer()
    assert seed() != "5"
    chat.last_answer.get_by_test_id("branch-back").click()
    expect(chat.last_answer.get_by_test_id("branches")).to_have_text("1/2")
    assert seed() == "5"


def test_on_a_phone_private_is_said_in_words(page: Page, device: Service) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    chat = signed_in(page, device.url)
    page.get_by_test_id("private-switch").check()
    box = chat.peer_status.locator(".peer-line").bounding_box()
    assert box is not None
    assert box["width"] > 30


def test_three_questions_are_made_from_the_newest_document(
    chat: ChatPage, emptied: None, tmp_path: Path
) -> None:
    note = (
        b"# The boat\n\nThe boat is kept in the shed until spring. The spare oar hangs behind the "
        b"red door. The winch code is 7-M and it hangs on the wall.\nThe hull is blue.\n"
    )
    chat.open_panel("documents")
    chat.upload(write(tmp_path, "old.txt", b"The lamp is under the stairs.\n"))
    chat.upload(write(tmp_path, "boat.md", note))
    chat.page.locator("#inspector-close").click()
    questions = chat.page.get_by_test_id("start-question")
    expect(questions).to_have_text(
        [
            "Where is the boat kept?",
            "Where does the spare oar hang?",
            "What is the winch code?",
        ]
    )
    chat.page.get_by_test_id("only-this").nth(1).click()
    expect(chat.last_answer).to_contain_text("behind the red door")
    expect(chat.page.get_by_test_id("scope")).to_contain_text("1 of 2 documents")
