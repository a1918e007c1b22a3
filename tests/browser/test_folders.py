"""Folders that the device watches, in the panel of documents."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.page import ChatPage


def test_a_folder_is_watched_followed_and_left_alone(chat: ChatPage, tmp_path: Path) -> None:
    page = chat.page
    notes = tmp_path / "Boathouse"
    notes.mkdir()
    (notes / "oar.txt").write_text("The oar hangs behind the red door.")
    (notes / "empty.txt").write_text("")
    chat.open_panel("documents")
    page.get_by_test_id("folders").locator("> summary").click()

    page.get_by_test_id("folder-path").fill(str(notes / "nowhere"))
    page.get_by_test_id("add-folder").click()
    expect(page.locator("#folder-error")).to_contain_text("cannot be watched")

    page.get_by_test_id("folder-path").fill(str(notes))
    page.get_by_test_id("add-folder").click()
    folder = page.get_by_test_id("folder")
    expect(folder).to_contain_text("1 file ready, 1 could not be read")
    expect(page.locator("#folder-error")).to_be_hidden()
    folder.locator("summary").click()
    files = folder.get_by_test_id("folder-file")
    expect(files.filter(has_text="empty.txt")).to_contain_text("The file is empty")
    expect(files.filter(has_text="oar.txt")).to_have_attribute("data-state", "indexed")
    expect(chat.document("oar.txt")).to_be_visible()

    (notes / "hull.txt").write_text("The hull is blue.")
    expect(chat.document("hull.txt")).to_be_visible()
    expect(files).to_have_count(3)
    (notes / "oar.txt").unlink()
    expect(chat.document("oar.txt")).to_have_count(0)

    page.get_by_test_id("remove-folder").click()
    expect(page.get_by_role("alertdialog")).to_contain_text(str(notes))
    page.get_by_test_id("confirm-delete").click()
    expect(folder).to_have_count(0)
    expect(chat.document("hull.txt")).to_have_count(0)
    assert (notes / "hull.txt").exists()
