"""Pictures of every state of the page: `python -m bench.screenshots`.

Both real services are started with some notes, on a link of 100 ms round trip; every picture is
taken in Chromium, light and dark on a desktop, and light on a phone.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urljoin

from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, ViewportSize, expect, sync_playwright

from bench.lib.pictures import in_few_colours, side_by_side
from dragon.models import EMBEDDED_WRITER
from harness import gguf_file, services
from harness.models import SMALL_MODEL
from harness.network_emulator import Network, relay
from harness.services import KEY, Floor, Service, Setup

NOTES = {
    "The cabin by the lake.md": (services.ROOT / "static" / "sample-note.md").read_text(),
    "Bicycle shed.txt": "The code of the bicycle shed is 4471-KX. The pump hangs by the door.\n",
    "Garden.txt": "The garden hose is stored under the bench. The roses are cut in March.\n",
}
STORES = "store,city,revenue\nS1,Lyon,5000\nS2,Turin,7500\n"
RTT_MS = 100.0
# Drags files over the page, or away again.
DRAG = """(kind) => {
  const carried = new DataTransfer();
  carried.items.add(new File(["A note."], "note.txt"));
  document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: carried, bubbles: true}));
}"""
FLOOR = Floor(20)  # ms a step on both sides, as on hardware with a larger model
WORDS = re.compile(r".{24}")  # of an answer that has begun
LOOKS = {
    "light": ("light", ViewportSize(width=1280, height=900)),  # room for both answers
    "dark": ("dark", ViewportSize(width=1280, height=900)),
    "phone": ("light", ViewportSize(width=390, height=844)),
}


class Tour:
    """A signed-in tab in one look, and the pictures taken of it."""

    def __init__(
        self, browser: Browser, device: Service, peer: Service, home: Path, out: Path, look: str
    ) -> None:
        scheme, size = LOOKS[look]
        context = browser.new_context(
            viewport=size,
            color_scheme="dark" if scheme == "dark" else "light",
            service_workers="block",
            locale="en-GB",
        )
        self.page: Page = context.new_page()
        self.device, self.peer, self.home = device, peer, home
        self.narrow = size["width"] < 800
        self._out, self._look = out, look

    def take(self, name: str, *others: Page) -> None:
        """A picture of what is seen, and beside it of what other tabs show."""
        self.page.mouse.move(1, 1)
        plain = in_few_colours(side_by_side([seen(page) for page in (self.page, *others)]))
        path = self._out / f"{name}-{self._look}.webp"
        plain.save(path, lossless=True, quality=100, method=6)  # small, however long it takes

    def begin(self) -> None:
        """Without a sign-in, then with one."""
        self.page.goto(self.device.url)
        self.take("sign-in")
        self.page.goto(f"{self.device.url}/sign-in?key={KEY}")
        self.page.locator("[data-testid=peer-status][data-state=connected]").wait_for()

    def press(self, testid: str) -> None:
        self.page.get_by_test_id(testid).last.click()

    def ask(self, question: str, *, private: bool = False) -> None:
        """Ask, and wait for the answer."""
        count = self.page.get_by_test_id("answer").count()
        self.page.get_by_test_id("private-switch").set_checked(private)
        self.page.get_by_test_id("prompt").fill(question)
        self.press("send")
        answer = self.page.get_by_test_id("answer").nth(count)
        answer.and_(self.page.locator("[data-state=done]")).wait_for()

    @contextmanager
    def held(self, question: str, *others: Page) -> Iterator[None]:
        """Ask, and have the device stand still once all tabs show some of the answer."""
        pages = (self.page, *others)
        while True:
            answers = [page.get_by_test_id("answer") for page in pages]
            new = [each.nth(each.count()) for each in answers]
            self.page.get_by_test_id("prompt").fill(question)
            self.press("send")
            for answer in new:
                answer.locator(".block").filter(has_text=WORDS).first.wait_for()
            self.device.signal(signal.SIGSTOP)
            try:
                if all(answer.get_attribute("data-state") == "streaming" for answer in new):
                    yield
                    return
            finally:
                self.device.signal(signal.SIGCONT)
                for answer in new:
                    expect(answer).to_have_attribute("data-state", "done")

    def new_chat(self) -> None:
        self.sidebar()
        self.press("new-chat")

    def sidebar(self) -> None:
        """Open, where it is not always."""
        if self.narrow and not self.page.locator("#sidebar.is-open").count():
            self.page.locator("#sidebar-open").click()

    def upload(self, collection: str, *files: tuple[str, bytes]) -> None:
        """Add files, and wait until they can be asked or are refused."""
        chosen = self.page.get_by_test_id("collection")
        if collection and not chosen.locator(f"option[value='{collection}']").count():
            project = {"name": collection, "instruction": ""}
            self.page.request.put(urljoin(self.page.url, "/api/projects"), data=project)
            self.page.reload()
            self.press("open-documents")
        chosen.locator(f"option[value='{collection}']").wait_for(state="attached")
        chosen.evaluate(
            "(menu, name) => { menu.value = name; menu.dispatchEvent(new Event('change')); }",
            collection,
        )
        for name, content in files:
            file = FilePayload(name=name, mimeType="text/plain", buffer=content)
            self.page.get_by_test_id("upload").set_input_files([file])
        for name, _ in files:
            row = self.page.get_by_test_id("document").filter(
                has=self.page.get_by_title(name, exact=True)
            )
            done = "[data-status=processed], [data-status=error]"
            row.and_(self.page.locator(done)).wait_for()

    def close_panel(self) -> None:
        if self.page.locator("#inspector").is_visible():
            self.page.locator("#inspector-close").click()


def seen(page: Page) -> Image.Image:
    """What a tab shows."""
    return Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")


def beginning(tour: Tour) -> None:
    """An empty device, then documents, one of which cannot be read."""
    if not tour.narrow:
        tour.page.get_by_text("Your chats appear here.").wait_for()
    tour.take("welcome")
    if not tour.narrow:
        tour.page.evaluate(DRAG, "dragenter")
        tour.take("drop")
        tour.page.evaluate(DRAG, "dragleave")
    tour.press("open-documents")
    for name, text in NOTES.items():
        tour.upload("House" if name != "Garden.txt" else "Garden", (name, text.encode()))
    tour.upload("", ("Stores.csv", STORES.encode()), ("Torn.docx", b"PK\x03\x04" + bytes(99)))
    tour.take("documents")
    tour.press("select")
    tour.page.get_by_label("Select Garden.txt").check()
    tour.take("documents-select")
    tour.press("select-cancel")
    tour.page.get_by_test_id("preview-document").last.click()
    tour.page.get_by_test_id("preview-text").locator("h1").wait_for()
    tour.take("preview")
    tour.page.keyboard.press("Escape")
    folders(tour)
    tour.close_panel()
    tour.page.get_by_test_id("start-question").first.wait_for()
    tour.take("suggestions")


def folders(tour: Tour) -> None:
    """A watched folder with its files, as long as it takes."""
    notes = tour.home / "Notes"
    notes.mkdir()
    (notes / "Oar.txt").write_text("The oar hangs behind the red door.\n")
    (notes / "Empty.txt").touch()
    tour.page.get_by_test_id("folders").locator("> summary").click()
    tour.page.get_by_test_id("folder-path").fill("~/Notes")
    tour.press("add-folder")
    folder = tour.page.get_by_test_id("folder")
    expect(folder).to_contain_text("1 file ready")
    folder.locator("summary").click()
    folder.get_by_test_id("folder-file").last.scroll_into_view_if_needed()
    tour.page.get_by_test_id("add-folder").scroll_into_view_if_needed()
    tour.take("folders")
    tour.press("remove-folder")
    tour.press("confirm-delete")
    expect(folder).to_have_count(0)


def answers(tour: Tour) -> None:
    """Answers from documents, the cloud, both, a table; no answer; the same again."""
    page = tour.page
    tour.ask("What is the wifi password of the cabin?")
    tour.ask("What is the capital of Kenya?")
    page.get_by_test_id("sources").last.locator("> summary").click()
    tour.take("chat")
    if not tour.narrow:
        tour.press("summary")
        page.get_by_role("tab", name="Who wrote what").click()
        page.get_by_test_id("who-text").focus()
        page.keyboard.press("ArrowRight")
        tour.take("provenance")
        tour.close_panel()
    tour.press("summary")
    page.get_by_test_id("sent").wait_for()
    tour.take("ledger")
    page.get_by_role("tab", name="Speed and details").click()
    page.get_by_test_id("pipeline").wait_for()
    tour.take("pipeline")
    tour.close_panel()
    tour.ask("What is the revenue of S2?")
    page.get_by_test_id("sources").last.locator("> summary").click()
    page.get_by_test_id("grid").wait_for()
    tour.take("table")
    tour.new_chat()
    tour.ask("What is the name of the neighbour's dog?", private=True)
    tour.take("miss")
    tour.press("ask-cloud")
    page.get_by_test_id("confirm-delete").click()
    page.locator("[data-testid=answer][data-state=done]").last.wait_for()
    expect(page.get_by_test_id("answer").last).to_contain_text("The public documents don’t")
    tour.take("miss-cloud")
    tour.new_chat()
    tour.ask("What is the code of the bicycle shed?", private=True)
    tour.press("again")
    page.get_by_test_id("other-passage").wait_for()
    tour.take("again")


def writing(tour: Tour) -> None:
    """An answer that is being written, in one tab and in two."""
    tour.new_chat()
    tour.ask("What is the wifi password of the cabin?")
    size = tour.page.viewport_size
    assert size is not None
    second = tour.page.context.new_page()
    second.goto(tour.page.url)
    second.get_by_test_id("answer").wait_for()
    tour.page.bring_to_front()
    with tour.held("Summarise The cabin by the lake.md.", second):
        tour.take("writing")
        if not tour.narrow:
            for page in (tour.page, second):
                page.set_viewport_size({"width": 790, "height": 900})
            tour.take("tabs", second)
            tour.page.set_viewport_size(size)
    second.close()


def many(tour: Tour) -> None:
    """Conversations, a search among them, projects; what deleting asks and says."""
    page = tour.page
    tour.sidebar()
    page.get_by_test_id("conversation").first.hover()
    page.get_by_test_id("conversation-menu").first.click()
    tour.take("menu")
    page.get_by_test_id("pin").click()
    page.get_by_test_id("search").fill("code")
    page.locator(".conversation-found mark").first.wait_for()
    tour.take("search")
    page.get_by_test_id("search").fill("")
    page.locator(".conversation-found").first.wait_for(state="hidden")
    page.get_by_test_id("project-open").filter(has_text="House").click()
    page.get_by_test_id("start-question").first.wait_for()
    tour.take("project")
    tour.sidebar()
    page.get_by_test_id("project-row").first.hover()
    page.get_by_test_id("project-menu").last.click()
    page.get_by_test_id("project-edit").click()
    page.get_by_test_id("project-instruction").fill("Answer in two sentences.")
    tour.take("project-edit")
    tour.press("project-cancel")
    page.get_by_test_id("project-open").first.click()
    tour.press("open-documents")
    shed = page.get_by_test_id("document").filter(has_text="Bicycle shed.txt")
    shed.get_by_test_id("delete-document").click()
    page.get_by_role("alertdialog").wait_for()
    tour.take("delete")
    tour.press("confirm-delete")
    page.get_by_test_id("receipt").wait_for()
    tour.take("receipt")
    tour.close_panel()
    tour.sidebar()
    page.get_by_test_id("conversation").filter(has_text="[…]").first.click()
    expect(page.get_by_test_id("answer-text").last).to_contain_text("deleted document")
    tour.take("redacted")


def around(tour: Tour) -> None:
    """Settings, the link; a question that is edited, an answer that failed."""
    page = tour.page
    tour.new_chat()
    tour.ask("What is the capital of Kenya?")
    tour.press("peer-status")
    tour.take("cloud")
    tour.press("peer-status")
    page.get_by_test_id("question").last.hover()
    tour.press("edit")
    tour.take("edit")
    page.keyboard.press("Escape")
    page.get_by_test_id("scope").click()
    tour.take("scope")
    page.keyboard.press("Escape")
    tour.sidebar()
    tour.press("open-settings")
    page.get_by_test_id("model").first.wait_for()
    tour.take("settings")
    page.get_by_test_id("try-model").first.click()
    page.get_by_test_id("trial-verdict").wait_for(timeout=120_000)
    tour.take("settings-trial")
    page.keyboard.press("Escape")
    tour.new_chat()
    page.get_by_test_id("prompt").fill("word " * 10_000)
    tour.press("send")
    page.locator("[data-testid=answer][data-state=error]").wait_for()
    tour.take("error")


def apart(tour: Tour) -> None:
    """The cloud is lost; then the device does not answer either."""
    tour.peer.kill()
    tour.new_chat()
    tour.page.locator("[data-testid=peer-status][data-state=connecting]").wait_for()
    tour.ask("What is the capital of Peru?")
    tour.take("cloud-lost")
    tour.device.kill()
    tour.page.get_by_test_id("connection").wait_for()
    tour.take("offline")


STATES: tuple[Callable[[Tour], None], ...] = (
    beginning,
    answers,
    many,
    around,
    writing,
    apart,
)


def main() -> None:
    """Start the services for each look, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=services.ROOT / "docs" / "screenshots")
    parser.add_argument("--looks", nargs="+", choices=LOOKS, default=list(LOOKS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for look in options.looks:
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder)
                home = data / "home"
                (home / "models").mkdir(parents=True)
                gguf_file.write(SMALL_MODEL, home / "models" / "small.gguf")
                built_in = {"DRAGON_MODEL": str(EMBEDDED_WRITER)}
                env = {**services.AS_INSTALLED, "HOME": str(home), **built_in}
                setup = Setup(data, env, FLOOR, FLOOR)
                with (
                    services.peer(setup, services.demo_corpus(data)) as peer,
                    relay(peer.port, Network(RTT_MS / 1000)) as link,
                    services.device(setup, link.port) as device,
                ):
                    services.wait_joint(device, RTT_MS)
                    tour = Tour(browser, device, peer, home, options.out, look)
                    tour.begin()
                    for state in STATES:
                        state(tour)
        browser.close()
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.glob("*.webp"))}
    print(json.dumps({"pictures": sizes}))


if __name__ == "__main__":
    main()
