"""Documents: many at once, their stages, collections, looking into them, deleting them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.pdf import pdf
from tests.browser.page import ChatPage
from tests.samples import prose

_DROP = """([files]) => {
  const carried = new DataTransfer();
  for (const [name, text] of files) carried.items.add(new File([text], name));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, {bubbles: true, dataTransfer: carried}));
  }
}"""


def drop(page: Page, **files: str) -> None:
    named = [[f"{name}.txt", text] for name, text in files.items()]
    page.evaluate(_DROP, [named])


def put_project(page: Page, name: str) -> None:
    """A project that the chats are not of."""
    page.get_by_test_id("new-project").click()
    page.get_by_test_id("project-name").fill(name)
    page.get_by_test_id("project-save").click()
    page.get_by_test_id("project-open").first.click()
    expect(page.get_by_test_id("scope")).to_have_text("All documents")


@pytest.mark.usefixtures("emptied")
def test_many_are_searched_sorted_filtered_and_selected(chat: ChatPage, tmp_path: Path) -> None:
    page = chat.page
    chat.open_panel("documents")
    expect(page.get_by_test_id("find-document")).to_be_hidden()
    texts = {"Öl 10.txt": "Oil.", "oel 9.md": "# Oil\n\nMore oil.", "wood.txt": "Wood."}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "torn.pdf").write_bytes(b"%PDF-1.7 nothing")
    chat.upload(*sorted(tmp_path.iterdir()))
    names = page.locator(".document-name")
    page.get_by_test_id("find-document").fill("ol 1")
    expect(names).to_have_text(["Öl 10.txt"])
    page.get_by_test_id("find-document").fill("no such")
    expect(page.locator("#documents")).to_have_text("No document matches.")
    page.get_by_test_id("find-document").fill("")
    page.get_by_test_id("sort-documents").select_option("name")
    expect(names).to_have_text(["torn.pdf", "oel 9.md", "Öl 10.txt", "wood.txt"])
    page.get_by_test_id("filter-type").select_option("TXT")
    expect(names).to_have_text(["Öl 10.txt", "wood.txt"])
    # Only what is seen is selected.
    page.get_by_test_id("select").click()
    page.get_by_test_id("select-all").click()
    expect(page.get_by_role("group", name="Select")).to_contain_text("2 selected")
    page.get_by_test_id("select-delete").click()
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("receipt")).to_be_in_viewport()
    expect(names).to_have_text(["torn.pdf", "oel 9.md"])
    page.get_by_test_id("filter-state").select_option("failed")
    expect(names).to_have_text(["torn.pdf"])
    # What is added is seen.
    drop(page, wood="The wood is stacked.")
    expect(names).to_have_count(3)
    assert chat.wait_document("wood.txt") == "processed"


@pytest.mark.usefixtures("emptied")
def test_many_are_dropped_into_a_collection_and_limited_to_it(chat: ChatPage) -> None:
    page = chat.page
    chat.open_panel("documents")
    put_project(page, "House")
    page.get_by_test_id("collection").select_option("House")
    drop(
        page,
        boiler="The boiler is bled at the valve behind the green door.",
        attic="The attic light is switched by the third stair.",
    )
    page.get_by_test_id("collection").select_option("")
    drop(page, garden="The garden hose is stored under the bench.")
    for name in ("boiler.txt", "attic.txt", "garden.txt"):
        assert chat.wait_document(name) == "processed"
    house = page.get_by_role("region", name="House")
    expect(house.get_by_test_id("document")).to_have_count(2)

    page.get_by_test_id("scope").click()
    page.locator("#scope-menu").get_by_label("House").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("scope")).to_contain_text("1 of 3 documents")
    answer = chat.answered("Where is the boiler bled?")
    titles = chat.sources("private", answer).locator(".source-title").all_inner_texts()
    assert "boiler.txt" not in titles
    page.reload()
    expect(page.get_by_test_id("scope")).to_contain_text("1 of 3 documents")
    page.get_by_test_id("scope").click()
    page.locator("#scope-menu").get_by_label("All documents").check()
    page.keyboard.press("Escape")
    answer = chat.answered("Where is the boiler bled?")
    assert "green door" in chat.open_source(chat.sources("private", answer).first)
    mark = chat.sources("private", answer).first.locator("mark")
    expect(mark).to_contain_text("green door")


@pytest.mark.usefixtures("emptied")
def test_a_folder_is_dropped_and_several_are_deleted(chat: ChatPage, tmp_path: Path) -> None:
    page = chat.page
    folder = tmp_path / "Cellar"
    (folder / "wine").mkdir(parents=True)
    (folder / "wine" / "red.txt").write_text("The red wine lies on the left.")
    (folder / "tools.txt").write_text("The drill is in the blue box.")
    (folder / ".hidden").write_text("nothing")
    (tmp_path / "loose.txt").write_text("The ladder leans on the wall.")
    chat.open_panel("documents")
    dragged = {"items": [], "files": [str(folder), str(tmp_path / "loose.txt")]}
    browser = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = dragged | {"dragOperationsMask": 1}
        browser.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 300, "data": data})
    for name in ("red.txt", "tools.txt", "loose.txt"):
        assert chat.wait_document(name) == "processed"
    cellar = page.get_by_role("region", name="Cellar")
    expect(cellar.get_by_test_id("document")).to_have_count(2)
    page.get_by_test_id("select").click()
    expect(page.get_by_test_id("select-delete")).to_be_disabled()
    page.get_by_label("Select red.txt").check()
    page.get_by_label("Select loose.txt").check()
    expect(page.get_by_role("group", name="Select")).to_contain_text("2 selected")
    page.get_by_test_id("select-delete").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Delete 2 documents from DRAGON?")
    page.get_by_test_id("confirm-cancel").click()
    expect(chat.documents).to_have_count(3)
    page.get_by_test_id("select-delete").click()
    page.get_by_test_id("confirm-delete").click()
    expect(chat.documents).to_have_count(1)
    expect(page.get_by_test_id("receipt")).to_contain_text("Deleted: 2 documents")
    expect(page.get_by_test_id("select")).to_be_hidden()


@pytest.mark.usefixtures("emptied")
def test_stages_cancel_retry_preview_and_a_receipt(chat: ChatPage) -> None:
    page = chat.page
    chat.open_panel("documents")
    drop(page, stones=prose(300))
    row = chat.document("stones.txt")
    expect(row.get_by_role("progressbar")).to_be_visible()
    row.get_by_test_id("cancel-document").click()
    expect(row).to_have_attribute("data-status", "error")
    row.get_by_test_id("retry-document").click()
    expect(row).to_have_attribute("data-status", "processed", timeout=60_000)

    row.get_by_test_id("preview-document").click()
    expect(page.get_by_test_id("preview-text")).to_contain_text("stone keeper")
    page.keyboard.press("Escape")

    row.get_by_test_id("delete-document").click()
    page.get_by_test_id("confirm-delete").click()
    receipt = page.get_by_test_id("receipt")
    expect(receipt).to_have_attribute("data-hits", "0")
    expect(receipt).to_contain_text("finds nothing now")
    expect(receipt).not_to_contain_text(": 0 passages")
    expect(row).to_have_count(0)


@pytest.mark.usefixtures("emptied")
def test_an_answer_tells_of_what_is_not_read_yet(chat: ChatPage) -> None:
    chat.open_panel("documents")
    drop(chat.page, stones=prose(5000))  # minutes of work
    expect(chat.document("stones.txt")).to_have_attribute("data-status", "uploaded")
    answer = chat.answered("Where is the tax folder?")
    expect(answer).to_contain_text("1 document could not be searched yet")


@pytest.mark.usefixtures("emptied")
def test_a_source_tells_its_page_and_opens_in_its_place(chat: ChatPage) -> None:
    pages = ("The barn is painted red.", "The hayloft ladder is kept behind the cider press.")
    assert chat.add("farm.pdf", pdf(*pages)) == "processed"
    answer = chat.ask("Where is the hayloft ladder kept?")
    assert chat.wait_answer(answer) == "done"
    source = chat.sources("private", answer).first
    expect(source).to_contain_text("farm.pdf")
    expect(source.locator(".source-page")).to_have_text("p. 2")
    assert "hayloft ladder" in chat.open_source(source)
    # Around it stands what the document says there; only the passage is marked.
    expect(source.get_by_test_id("passage")).to_contain_text("painted red")
    expect(source.locator("mark")).to_contain_text("hayloft ladder")
    expect(source.locator("mark")).not_to_contain_text("painted red")


@pytest.mark.usefixtures("emptied")
def test_what_a_table_answers_shows_the_query(chat: ChatPage) -> None:
    rows = b"store_id,city,revenue_eur\nS1,Lyon,5000\nS2,Turin,7500\n"
    assert chat.add("stores.csv", rows) == "processed"
    answer = chat.ask("What is the revenue of S2?")
    assert chat.wait_answer(answer) == "done"
    expect(answer).to_contain_text("S2, Turin, revenue_eur: 7500")
    source = chat.sources("private", answer).first
    chat.open_source(source)
    grid = source.get_by_test_id("grid")
    expect(grid.locator("th")).to_have_text(["store_id", "city", "revenue_eur"])
    expect(grid.locator("mark")).to_have_text(["S2", "Turin", "7500"])
    query = source.get_by_test_id("source-query")
    expect(query).to_have_text(
        """SELECT "store_id", "revenue_eur" FROM "stores.csv" WHERE "store_id" = 'S2'"""
    )


@pytest.mark.usefixtures("emptied")
def test_a_new_version_takes_the_place_of_the_old_one(chat: ChatPage) -> None:
    page = chat.page
    chat.open_panel("documents")
    drop(page, ferry="The ferry to the island leaves from pier four.")
    assert chat.wait_document("ferry.txt") == "processed"
    drop(page, ferry="The ferry to the island leaves from pier nine.")
    expect(page.get_by_role("alertdialog")).to_contain_text("Replace ferry.txt?")
    page.get_by_test_id("confirm-delete").click()
    expect(chat.document("ferry.txt")).to_have_count(2)
    expect(chat.document("ferry.txt")).to_have_count(1)
    chat.document("ferry.txt").get_by_test_id("preview-document").click()
    expect(page.get_by_test_id("preview-text")).to_contain_text("pier nine")
    page.keyboard.press("Escape")
    page.reload()
    expect(chat.document("ferry.txt")).to_have_count(1)


@pytest.mark.usefixtures("emptied")
def test_a_choice_of_documents_outlives_one_of_them(chat: ChatPage) -> None:
    """A question must not ask for what is deleted."""
    page = chat.page
    chat.open_panel("documents")
    drop(page, cellar="The cellar key is with Frau Holm.", loft="The loft is dry.")
    for name in ("cellar.txt", "loft.txt"):
        assert chat.wait_document(name) == "processed"
    page.get_by_test_id("scope").click()
    page.locator("#scope-menu").get_by_label("loft.txt").uncheck()
    page.keyboard.press("Escape")
    answer = chat.ask("Who has the cellar key?")
    assert chat.wait_answer(answer) == "done"
    expect(chat.sources("private", answer).first).to_contain_text("cellar.txt")
    chat.delete("cellar.txt")
    expect(page.get_by_test_id("scope")).to_contain_text("No documents")
    for answers in (2, 3):
        answer = chat.ask("Who has the cellar key?")
        assert chat.wait_answer(answer) == "done"
        assert chat.sources("private", answer).count() == 0
        page.reload()
        expect(page.get_by_test_id("answer")).to_have_count(answers)


@pytest.mark.usefixtures("emptied")
def test_a_file_that_is_not_taken_is_shown_with_the_reason(chat: ChatPage, tmp_path: Path) -> None:
    """On the first page, too, where no panel is open."""
    empty = tmp_path / "empty.txt"
    empty.touch()
    chat.page.get_by_role("button", name="New chat").click()
    chat.upload(empty, wait=False)
    expect(chat.document("empty.txt")).to_be_visible()
    expect(chat.document("empty.txt")).to_contain_text("The file is empty")
