"""Private is a chat's own, and what the page says was kept or sent was."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from harness.services import wait_joint
from tests.browser.conftest import Pair
from tests.browser.page import ChatPage

KENYA = "What is the capital of Kenya?"
BOAT = "Where is the boat kept?"


def switch(chat: ChatPage) -> Locator:
    return chat.page.get_by_test_id("private-switch")


def open_chat(chat: ChatPage, title: str) -> None:
    chat.conversations.filter(has_text=title).first.locator(".conversation-open").click()


def test_private_is_the_chats_own(chat: ChatPage, context: BrowserContext) -> None:
    chat.wait_peer("connected")
    question = "Who keeps the key of the belfry?"
    chat.answered(question, private=True)
    address = chat.page.url
    expect(chat.peer_status).to_have_text("Private")

    chat.new_chat()  # begins as private as the one before
    expect(switch(chat)).to_be_checked()
    chat.page.reload()
    expect(switch(chat)).to_be_checked()
    expect(chat.peer_status).to_have_text("Private")
    switch(chat).uncheck()
    expect(chat.peer_status).to_have_text("Cloud: always")
    chat.answered(KENYA)
    expect(chat.last_answer).to_contain_text("Nairobi")
    switch(chat).check()
    expect(chat.peer_status).to_have_text("Private from here on")  # it was asked openly
    switch(chat).uncheck()

    open_chat(chat, question)
    expect(switch(chat)).to_be_checked()
    expect(chat.peer_status).to_have_text("Private")
    chat.page.reload()
    expect(switch(chat)).to_be_checked()

    other = ChatPage(context.new_page())
    other.page.goto(address)
    expect(switch(other)).to_be_checked()
    switch(chat).uncheck()
    expect(chat.peer_status).to_have_text("Cloud: always")
    expect(switch(other)).not_to_be_checked()
    expect(other.peer_status).to_have_text("Cloud: always")
    chat.page.reload()
    expect(chat.answers).to_have_count(1)
    expect(switch(chat)).not_to_be_checked()


@pytest.mark.usefixtures("emptied")
def test_a_private_chat_sends_a_question_only_once_that_is_agreed_to(chat: ChatPage) -> None:
    """The private answer stays what it was; the one that was sent says so; the chat is private."""
    page = chat.page
    chat.wait_peer("connected")
    chat.add("boat.txt", "The boat is kept in the shed.")
    answer = chat.answered(KENYA, private=True)
    expect(answer).to_contain_text("I couldn’t find this in your documents.")
    expect(answer).to_contain_text("It would see this question, words of the answer")
    answer.get_by_test_id("ask-cloud").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("The cloud will see this question, words of the answer")
    page.get_by_test_id("confirm-cancel").click()
    expect(chat.answers).to_have_count(1)
    expect(page.get_by_test_id("branches")).to_have_count(0)

    answer.get_by_test_id("ask-cloud").click()
    page.get_by_test_id("confirm-delete").click()
    question = page.get_by_test_id("question")
    expect(question.get_by_test_id("branches")).to_have_text("2/2")
    chat.wait_answer()
    expect(chat.last_answer).to_contain_text("Nairobi")
    expect(chat.last_answer).to_contain_text("You sent this question to the cloud")
    expect(question).not_to_contain_text("Private")
    expect(chat.last_answer.get_by_test_id("summary")).to_contain_text("With the cloud")
    expect(switch(chat)).to_be_checked()
    expect(chat.peer_status).to_have_text("Private from here on")
    chat.last_answer.get_by_test_id("summary").click()
    expect(page.get_by_test_id("sent")).to_contain_text("your question")

    # The panel follows to the version that is shown.
    question.get_by_test_id("branch-back").click()
    expect(page.get_by_test_id("ledger")).to_contain_text("Nothing left this device")
    expect(question).to_contain_text("Private in this version, asked openly in another")
    expect(chat.last_answer.get_by_test_id("summary")).to_have_text("Private")
    expect(chat.peer_status).to_have_text("Private")
    page.get_by_role("tab", name="Speed and details").click()
    expect(page.get_by_test_id("live")).to_contain_text("this device alone")
    question.get_by_test_id("branch-next").click()
    expect(page.get_by_test_id("live")).not_to_contain_text("this device alone")
    page.reload()
    expect(switch(chat)).to_be_checked()


@pytest.mark.usefixtures("emptied")
@pytest.mark.parametrize(
    ("question", "text"),
    [(BOAT, "The boat is kept in the shed."), (KENYA, "The oar hangs on the wall.")],
    ids=["source", "closest"],
)
def test_a_deleted_document_is_gone_from_the_open_chat(
    chat: ChatPage, context: BrowserContext, question: str, text: str
) -> None:
    """A source keeps its place without its text, a closest passage goes, in another tab, too."""
    chat.add("boat.txt", text)
    chat.answered(question, private=True)
    assert text in chat.open_source(chat.sources("private").first)
    other = ChatPage(context.new_page())
    other.page.goto(chat.page.url)
    expect(other.last_answer).to_have_attribute("data-state", "done")
    other.open_panel("documents")
    chat.delete("boat.txt")
    for each in (chat, other):
        expect(each.last_answer.get_by_test_id("sources")).not_to_contain_text("boat.txt")
        fold = each.last_answer.get_by_test_id("sources")
        expect(fold.get_by_test_id("passage").filter(has_text=text)).to_have_count(0)
        expect(each.documents).to_have_count(0)


@pytest.mark.usefixtures("emptied")
def test_without_documents_a_miss_says_that_there_are_none(chat: ChatPage, tmp_path: Path) -> None:
    answer = chat.answered(BOAT, private=True)
    expect(answer).to_contain_text("You have no documents here.")
    with chat.page.expect_file_chooser() as chooser:
        answer.get_by_test_id("add-documents").click()
    note = tmp_path / "boat.txt"
    note.write_text("The boat is kept in the shed.")
    chooser.value.set_files(str(note))
    chat.wait_document("boat.txt")
    expect(answer).to_contain_text("Your documents didn’t say when you asked.")
    expect(answer.get_by_test_id("add-documents")).to_have_count(0)


def test_what_the_cloud_had_of_a_chat_is_said_in_the_words_of_its_questions(chat: ChatPage) -> None:
    chat.wait_peer("connected")
    belfry, peru = "Who keeps the key of the belfry?", "What is the capital of Peru?"
    chat.answered(belfry, private=True)
    chat.answered(KENYA)
    chat.last_answer.get_by_test_id("summary").click()
    ledger, sent = chat.page.get_by_test_id("ledger"), chat.page.get_by_test_id("sent")
    expect(sent).to_contain_text(f"your question: “{KENYA}”")
    expect(ledger).to_contain_text("What you asked before stayed on this device.")
    chat.answered(peru)
    expect(sent).to_contain_text(f"your question: “{peru}”")
    expect(sent).to_contain_text(f"that it had already seen: “{KENYA}”")
    expect(ledger).not_to_contain_text("What you asked before")
    expect(ledger).not_to_contain_text(belfry)


def test_an_answer_whose_question_was_sent_in_vain_says_so(chat: ChatPage, pair: Pair) -> None:
    """The cloud has the question, though it has written no word of the answer."""
    chat.wait_peer("connected")
    pair.peer.signal(signal.SIGSTOP)
    try:
        chat.answered(KENYA)
        summary = chat.last_answer.get_by_test_id("summary")
        expect(summary).to_have_text("From this device, cloud asked")
        expect(summary).to_have_attribute("data-side", "public")
        summary.click()
        expect(chat.page.get_by_test_id("sent")).to_contain_text(f"your question: “{KENYA}”")
    finally:
        pair.peer.signal(signal.SIGCONT)
        wait_joint(pair.device)
