"""axe finds nothing serious: light, dark and narrow, in every state that the page can be in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from harness.pdf import pdf
from harness.services import Service
from tests.browser.conftest import Pair, Scripted, signed_in
from tests.samples import prose

_DRAG = """() => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File(["x"], "x.txt"));
  dispatchEvent(new DragEvent("dragenter", {dataTransfer}));
}"""

_NO_SOCKETS = """window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose()); }
  close() {}
};"""


def serious(page: Page) -> list[str]:
    found: dict[str, Any] = Axe().run(page).response
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def press(page: Page, key: str) -> None:
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press(key)


@pytest.fixture(params=[("light", 1280), ("dark", 390)])
def looked_at(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    scheme, width = request.param
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        reduced_motion="reduce",
        bypass_csp=True,  # axe is put into the page as a script
    )
    yield context.new_page()
    context.close()


def test_of_a_conversation(looked_at: Page, telling_device: Pair) -> None:
    page = looked_at
    narrow = page.viewport_size is not None and page.viewport_size["width"] < 800
    chat = signed_in(page, telling_device.device.url)
    assert serious(page) == []
    chat.wait_peer("connected")
    chat.ask("What is the capital of Kenya? Look it up.")
    assert chat.wait_answer() == "done"
    expect(chat.last_answer.locator(".code")).to_be_visible()
    page.get_by_test_id("private-switch").check()
    chat.open_source(chat.sources().first)
    assert serious(page) == []
    for key in ("p", "d", "l", "w"):
        press(page, key)
        assert serious(page) == [], key
    if narrow:
        page.locator("#inspector-close").click()
    press(page, "e")
    assert serious(page) == []
    page.keyboard.press("Escape")
    for key in ("?", "s"):
        press(page, key)
        expect(page.locator("dialog[open]")).to_have_count(1)
        assert serious(page) == [], key
        page.keyboard.press("Escape")
    for opened in ("scope", "peer-status"):
        page.get_by_test_id(opened).click()
        assert serious(page) == [], opened
        page.get_by_test_id(opened).click()
    chat.last_answer.get_by_test_id("again").click()
    chat.stop()
    expect(chat.last_answer.get_by_test_id("branches")).to_be_visible()
    assert serious(page) == []
    if narrow:
        page.locator("#sidebar-open").click()
    page.get_by_test_id("search").fill("heron")
    expect(page.locator(".conversation-found").first).to_be_visible()
    assert serious(page) == []
    page.get_by_test_id("conversation-menu").first.click()
    assert serious(page) == []
    page.get_by_test_id("delete-conversation").click()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.get_by_test_id("search").fill("nothing of the kind")
    expect(page.get_by_test_id("conversations")).to_contain_text("Nothing found")
    assert serious(page) == []


def test_of_what_is_under_way_or_went_wrong(looked_at: Page, scripted: Scripted) -> None:
    page = looked_at
    scripted.generation.script, scripted.generation.delay = "A sentence goes on. " * 60, 0.05
    chat = signed_in(page, scripted.url)
    answer = chat.ask("Tell me.")
    answer.get_by_test_id("seam").wait_for()  # where the cloud was lost
    assert serious(page) == []
    chat.stop()
    assert serious(page) == []
    scripted.generation.delay, scripted.generation.fail_after = 0, 2
    answer = chat.ask("Does it work?")
    assert chat.wait_answer(answer) == "error"
    assert serious(page) == []
    page.evaluate(_DRAG)
    expect(page.locator("#drop")).to_be_visible()
    assert serious(page) == []
    page.evaluate("() => { document.querySelector('#drop').hidden = true }")
    page.add_init_script(_NO_SOCKETS)
    page.reload()
    expect(page.get_by_test_id("connection")).to_be_visible()
    assert serious(page) == []


@pytest.mark.usefixtures("emptied")
def test_of_documents(looked_at: Page, device: Service, tmp_path: Path) -> None:
    page = looked_at
    (tmp_path / "note.txt").write_text("A note.")
    (tmp_path / "empty.txt").write_text("")
    chat = signed_in(page, device.url)
    chat.open_panel("documents")
    assert serious(page) == []
    page.get_by_test_id("folders").locator("> summary").click()
    page.get_by_test_id("folder-path").fill(str(tmp_path))
    page.get_by_test_id("add-folder").click()
    folder = page.get_by_test_id("folder")
    expect(folder).to_contain_text("1 file ready, 1 could not be read")
    folder.locator("summary").click()
    expect(folder.get_by_test_id("folder-file")).to_have_count(2)
    assert serious(page) == []
    page.get_by_test_id("remove-folder").click()
    assert serious(page) == []
    page.get_by_test_id("confirm-delete").click()
    expect(folder).to_have_count(0)
    files = [("well.txt", prose(200).encode()), ("torn.pdf", b"%PDF-1.7 nothing")]
    for name, content in files:
        upload = {"name": name, "mimeType": "text/plain", "buffer": content}
        page.get_by_test_id("upload").set_input_files([upload])
    expect(chat.document("well.txt").get_by_role("progressbar")).to_be_visible()
    assert serious(page) == []
    for name, _ in files:
        chat.wait_document(name)
    assert serious(page) == []
    page.get_by_test_id("select").click()
    page.get_by_label("Select well.txt").check()
    assert serious(page) == []
    page.get_by_test_id("select-cancel").click()
    chat.document("well.txt").get_by_test_id("preview-document").click()
    expect(page.get_by_test_id("preview-text")).to_contain_text("stone keeper")
    assert serious(page) == []
    page.keyboard.press("Escape")
    chat.add("mill.pdf", pdf("The mill.", "Rent."))
    chat.document("mill.pdf").get_by_test_id("preview-document").click()
    page.get_by_test_id("page-picture").wait_for()
    assert serious(page) == []
    page.keyboard.press("Escape")
    for name in ("well.txt", "torn.pdf", "mill.pdf"):
        chat.delete(name)
    page.get_by_test_id("receipt").wait_for()
    assert serious(page) == []


@pytest.mark.usefixtures("emptied")
def test_of_a_wide_table(looked_at: Page, device: Service) -> None:
    """With its sources, as it comes and sorted both ways, and in each tab about its answer."""
    page = looked_at
    columns = ["code", "price", *(f"property{number}" for number in range(12))]
    rows = (f"B10{number},{number}80" + ",longword" * 12 for number in range(3))
    chat = signed_in(page, device.url)
    chat.add("bikes.csv", "\n".join((",".join(columns), *rows)) + "\n")
    answer = chat.answered("Compare B100 and B101.", private=True)
    table = answer.get_by_test_id("rows")
    assert table.evaluate("(rows) => rows.firstChild.scrollWidth > rows.clientWidth")
    assert serious(page) == []
    for order in ("ascending", "descending"):
        table.get_by_role("button", name="price").click()
        expect(table.locator(f"th[aria-sort={order}]")).to_have_text("price")
        assert serious(page) == [], order
    chat.open_source(chat.sources().first)
    assert serious(page) == []
    for tab in ("who", "ledger", "live"):
        answer.get_by_test_id("summary").click()
        page.locator(f"#tab-{tab}").click()
        assert serious(page) == [], tab
        page.locator("#inspector-close").click()


def test_of_models(
    looked_at: Page, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The picker, what there is, and models to get, of which one could not be fetched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    page = looked_at
    signed_in(page, scripted.url)
    page.get_by_test_id("model-picker").click()
    expect(page.get_by_test_id("pick-model").first).to_be_visible()
    assert serious(page) == []
    page.get_by_test_id("more-models").click()
    offer = page.get_by_test_id("offer").first
    expect(offer).to_be_visible()
    assert serious(page) == []
    offer.get_by_test_id("get-offer").click()
    expect(offer).to_contain_text("The hub cannot be reached.")
    assert serious(page) == []


def test_without_a_sign_in(looked_at: Page, device: Service) -> None:
    looked_at.goto(device.url)
    assert serious(looked_at) == []


@pytest.mark.parametrize(
    ("locale", "schemes"), [("en", ["light", "dark"]), ("de", ["light"]), ("es", ["light"])]
)
def test_in_each_language_and_theme(
    browser: Browser, device: Service, locale: str, schemes: list[Literal["light", "dark"]]
) -> None:
    """The theme is changed under what is open, so that each state is made once."""
    context = browser.new_context(locale=locale, reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    chat = signed_in(page, device.url)

    def looked_at(state: str) -> None:
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            assert serious(page) == [], (state, scheme)

    looked_at("welcome")
    page.get_by_test_id("prompt").fill("/")
    expect(page.get_by_test_id("prompt-item").first).to_be_visible()
    looked_at("prompts")
    page.keyboard.press("Escape")
    chat.answered("What is the capital of Kenya?")
    chat.open_source(chat.sources().first)
    chat.open_panel("documents")
    looked_at("answer")
    press(page, "s")
    expect(page.get_by_test_id("model").first).to_be_visible()
    looked_at("settings")
    page.keyboard.press("Escape")
    page.get_by_test_id("new-project").click()
    looked_at("project")
    context.close()
