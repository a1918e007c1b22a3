"""Pictures of the page for the README: `python -m bench.screenshots`.

Both real services are started with three notes, on a link of 100 ms round trip; every picture is
taken in Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, FilePayload, Page, ViewportSize, sync_playwright

from harness import services
from harness.network_emulator import Network, relay
from harness.services import KEY, Floor, Service, Setup

NOTES = {
    "The cabin by the lake.md": (services.ROOT / "static" / "sample-note.md").read_text(),
    "Bicycle shed.txt": "The code of the bicycle shed is 4471-KX. The pump hangs by the door.\n",
    "Garden.txt": "The garden hose is stored under the bench. The roses are cut in March.\n",
}
RTT_MS = 100.0
FLOOR = Floor(20)  # ms a step on both sides, as on hardware with a larger model
QUESTIONS = ("What is the wifi password of the cabin?", "What is the capital of Kenya?")
Scheme = Literal["light", "dark"]
DESKTOP = ViewportSize(width=1280, height=900)  # room for both answers
PHONE = ViewportSize(width=390, height=844)


class Tour:
    """A signed-in page, and the pictures taken of it."""

    def __init__(self, browser: Browser, device: Service, out: Path, scheme: Scheme) -> None:
        self._browser = browser
        self._out = out
        self._scheme = scheme
        self._address = f"{device.url}/sign-in?key={KEY}"

    def page(self, size: ViewportSize) -> Page:
        """A new tab."""
        context = self._browser.new_context(viewport=size, color_scheme=self._scheme)
        page = context.new_page()
        page.goto(self._address)
        page.locator("[data-testid=peer-status][data-state=connected]").wait_for()
        return page

    def take(self, page: Page, name: str) -> None:
        """A picture of what is seen."""
        page.mouse.move(1, 1)
        page.screenshot(path=self._out / f"{name}-{self._scheme}.png", animations="disabled")


def ask(page: Page, question: str) -> None:
    """Ask, and wait for the answer."""
    count = page.get_by_test_id("answer").count()
    page.get_by_test_id("prompt").fill(question)
    page.get_by_test_id("send").click()
    answer = page.get_by_test_id("answer").nth(count)
    answer.and_(page.locator("[data-state=done]")).wait_for()


def add_notes(page: Page) -> None:
    """Upload the notes, and wait until they can be asked."""
    page.get_by_test_id("open-documents").click()
    for name, text in NOTES.items():
        page.get_by_test_id("collection").fill("House" if name != "Garden.txt" else "Garden")
        file = FilePayload(name=name, mimeType="text/plain", buffer=text.encode())
        page.get_by_test_id("upload").set_input_files([file])
    done = page.locator("[data-testid=document][data-status=processed]")
    done.nth(len(NOTES) - 1).wait_for()


def tour(tour: Tour, *, first: bool) -> None:
    """All pictures in one colour scheme."""
    page = tour.page(DESKTOP)
    if first:
        tour.take(page, "welcome")
        add_notes(page)
        page.locator("#inspector-close").click()
    for question in QUESTIONS:
        ask(page, question)
    page.locator("[data-testid=source][data-side=public] summary").last.scroll_into_view_if_needed()
    tour.take(page, "chat")
    panels = {
        "pipeline": (page.get_by_test_id("summary").last, "pipeline"),
        "ledger": (page.get_by_test_id("left").last, "fivegrams"),
        "documents": (page.get_by_role("tab", name="Documents"), "document"),
    }
    for name, (opener, content) in panels.items():
        opener.click()
        page.get_by_test_id(content).first.wait_for()
        tour.take(page, name)
    page.locator("#inspector-close").click()
    page.get_by_test_id("provenance").last.click()
    page.get_by_test_id("answer").last.get_by_test_id("cloud-share").wait_for()
    page.get_by_test_id("answer-text").last.focus()
    page.keyboard.press("ArrowRight")
    tour.take(page, "provenance")
    page.get_by_test_id("open-settings").click()
    page.get_by_test_id("model").first.scroll_into_view_if_needed()
    tour.take(page, "settings")
    page.keyboard.press("Escape")
    address = page.url
    page.context.close()
    phone = tour.page(PHONE)
    phone.goto(address)
    phone.get_by_test_id("answer").nth(1).wait_for()
    tour.take(phone, "phone")
    phone.context.close()


def main() -> None:
    """Start the services and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=services.ROOT / "docs" / "screenshots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(folder)
        setup = Setup(data, services.AS_INSTALLED, FLOOR, FLOOR)
        with (
            services.peer(setup, services.demo_corpus(data)) as peer,
            relay(peer.port, Network(RTT_MS / 1000)) as link,
            services.device(setup, link.port) as device,
        ):
            services.wait_joint(device, RTT_MS)
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            schemes: tuple[Scheme, ...] = ("light", "dark")
            for scheme in schemes:
                tour(Tour(browser, device, options.out, scheme), first=scheme == "light")
            browser.close()
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.glob("*.png"))}
    print(json.dumps({"pictures": sizes}))


if __name__ == "__main__":
    main()
