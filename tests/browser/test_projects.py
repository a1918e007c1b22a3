"""Projects in the sidebar; conversations pinned and archived."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.browser.page import ChatPage


@pytest.mark.usefixtures("emptied")
def test_a_project_has_documents_an_instruction_and_chats(chat: ChatPage) -> None:
    page = chat.page
    chat.add("hut.txt", "The oar of the hut lies under the bed.")
    page.get_by_test_id("new-project").click()
    page.get_by_test_id("project-name").fill("Never")
    page.get_by_test_id("project-cancel").click()
    expect(page.get_by_test_id("project-row")).to_have_count(0)
    page.get_by_test_id("new-project").click()
    page.get_by_test_id("project-name").fill("Boat")
    page.get_by_test_id("project-instruction").fill("Answer briefly.")
    page.get_by_test_id("project-save").click()
    expect(page.get_by_role("heading", name="Boat", exact=True)).to_be_visible()
    expect(page.locator("#welcome")).to_contain_text("Answer briefly.")
    expect(page.get_by_test_id("scope")).to_have_text("All of Boat")

    chat.open_panel("documents")
    chat.add("boat.txt", "The oar hangs behind the red door.")
    region = page.get_by_role("region", name="Boat")
    expect(region.get_by_test_id("document")).to_have_count(1)
    answer = chat.answered("Where does the oar hang?", private=True)
    expect(answer.get_by_test_id("answer-text")).to_contain_text("behind the red door")
    titles = chat.sources("private", answer).locator(".source-title").all_inner_texts()
    assert set(titles) == {"boat.txt"}
    expect(chat.conversations).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Boat · Where does the oar hang?")

    page.reload()
    expect(page.get_by_test_id("scope")).to_have_text("All of Boat")
    chat.menu("Where does the oar hang?", "move")
    expect(page.get_by_test_id("scope")).to_have_text("All documents")
    page.get_by_test_id("project-row").hover()
    page.get_by_test_id("project-menu").click()
    page.get_by_test_id("project-delete").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Delete boat.txt from DRAGON?")
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("project-row")).to_have_count(0)
    expect(chat.documents).to_have_count(1)


def test_conversations_are_pinned_and_archived(chat: ChatPage) -> None:
    page = chat.page
    for title in ("First of them?", "Second of them?"):
        chat.new_chat()
        chat.answered(title, private=True)
    titles = chat.conversations.locator(".conversation-title")
    chat.menu("First of them?", "pin")
    expect(page.get_by_role("region", name="Pinned")).to_contain_text("First of them?")
    expect(titles.first).to_have_text("First of them?")
    chat.menu("Second of them?", "archive")
    expect(chat.conversations.filter(has_text="Second of them?")).to_have_count(0)
    page.get_by_test_id("archived").click()
    expect(titles).to_have_text(["Second of them?"])
    chat.menu("Second of them?", "archive")
    expect(page.get_by_test_id("conversations")).to_contain_text("Nothing is archived.")
    page.get_by_test_id("archived").click()
    expect(titles.nth(1)).to_have_text("Second of them?")


def test_projects_that_are_listed_last_are_offered_to_new_documents(chat: ChatPage) -> None:
    page = chat.page
    held: list[Route] = []
    page.route("**/api/projects", lambda route: held.append(route))
    page.reload()
    chat.wait_peer("connected")
    chat.open_panel("documents")
    expect(page.get_by_test_id("collection")).to_be_hidden()
    while not held:
        page.wait_for_timeout(50)
    for route in held:
        route.fulfill(json={"data": [{"name": "House", "instruction": "", "files": 0}]})
    options = page.get_by_test_id("collection").locator("option")
    expect(options).to_have_text(["No project", "House"])
