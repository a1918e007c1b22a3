"""The page as an installed app: offline, shared with, and under the keyboard of a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from harness.services import KEY, Service
from tests.browser.conftest import Opened, Scripted, signed_in

# Another app shares: the browser opens the address with a form of it.
_SHARE = """([name, content, text]) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: "/share", enctype: "multipart/form-data" });
  const files = Object.assign(document.createElement("input"), { type: "file", name: "files" });
  const carried = new DataTransfer();
  carried.items.add(new File([content], name));
  files.files = carried.files;
  const words = Object.assign(document.createElement("input"), { name: "text", value: text });
  form.append(files, words);
  document.body.append(form);
  form.submit();
}"""


@pytest.fixture
def working(browser: Browser) -> Iterator[BrowserContext]:
    """With a service worker."""
    context = browser.new_context(viewport={"width": 390, "height": 740}, has_touch=True)
    yield context
    context.close()


def controlled(page: Page) -> None:
    """Waits until the worker serves the page, and has kept all of it."""
    page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
    page.reload()
    page.wait_for_function("() => navigator.serviceWorker.controller !== null")
    page.wait_for_load_state("networkidle")


def test_the_manifest_is_whole(device: Service) -> None:
    with httpx.Client(base_url=device.url, timeout=60) as client:
        reply = client.get("/manifest.webmanifest")
        assert reply.headers["content-type"].startswith("application/manifest+json")
        manifest = json.loads(reply.text)
        for icon in manifest["icons"]:
            assert client.get(icon["src"]).headers["content-type"] == icon["type"]
        worker = client.get("/service-worker.js")
        assert worker.headers["content-type"].startswith("text/javascript")
        assert worker.headers["cache-control"] == "no-cache"


def test_the_page_opens_while_the_device_does_not_answer(
    working: BrowserContext, device: Service
) -> None:
    page = working.new_page()
    signed_in(page, device.url)
    controlled(page)
    working.set_offline(True)
    page.reload()
    expect(page.get_by_test_id("connection")).to_be_visible()
    expect(page.get_by_test_id("prompt")).to_be_visible()
    working.set_offline(False)
    # It connects again by itself.
    expect(page.get_by_test_id("connection")).to_be_hidden()
    # Nothing but the page's own files is kept.
    kept: list[str] = page.evaluate(
        "() => caches.open('shell').then((kept) => kept.keys())"
        ".then((keys) => keys.map(({ url }) => new URL(url).pathname))"
    )
    assert "/" in kept
    assert all(path == "/" or path.startswith("/static/") for path in kept)
    page.evaluate("() => fetch('/api/sign-out', { method: 'POST' })")
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    working.set_offline(True)
    with pytest.raises(Exception, match="net::ERR"):
        page.reload()


@pytest.mark.usefixtures("emptied")
def test_what_another_app_shares_is_taken(working: BrowserContext, device: Service) -> None:
    page = working.new_page()
    chat = signed_in(page, device.url)
    controlled(page)
    page.evaluate(_SHARE, ["Fähre.txt", "The ferry leaves from pier nine.", "When does it go?"])
    assert chat.wait_document("Fähre.txt") == "processed"
    expect(page.get_by_test_id("prompt")).to_have_value("When does it go?")
    assert page.url.rstrip("/") == device.url
    page.reload()
    expect(chat.document("Fähre.txt")).to_have_count(1)
    expect(page.get_by_test_id("prompt")).to_have_value("")


def test_nothing_jumps_when_the_keyboard_opens(opened: Opened, scripted: Scripted) -> None:
    """A browser makes the page smaller by the keyboard: what was read stays above the question."""
    scripted.generation.script = "\n\n".join(f"Line number {number}." for number in range(60))
    chat = opened(scripted.url, viewport={"width": 390, "height": 740}, has_touch=True)
    page = chat.page
    chat.answered("Tell me.")
    page.locator("#scroll").evaluate("s => { s.scrollTop = s.scrollHeight / 2 }")
    lowest = (
        "() => { const end = document.querySelector('#scroll').getBoundingClientRect().bottom;"
        " return [...document.querySelectorAll('.text p')].filter((p) =>"
        " p.getBoundingClientRect().bottom <= end).at(-1).textContent; }"
    )
    page.wait_for_function("() => !document.querySelector('#to-end').hidden")
    before = page.evaluate(lowest)
    page.get_by_test_id("prompt").tap()
    page.set_viewport_size({"width": 390, "height": 400})
    page.wait_for_function(f"(before) => ({lowest})() === before", arg=before)
    assert page.evaluate("() => window.scrollY") == 0
    box = page.get_by_test_id("prompt").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 400
    page.set_viewport_size({"width": 390, "height": 740})
    page.wait_for_function(f"(before) => ({lowest})() === before", arg=before)


def test_a_keyboard_that_covers_the_page_is_made_room_for(page: Page, device: Service) -> None:
    """As in Safari, which only makes the part smaller that is seen."""
    page.add_init_script(
        "Object.defineProperty(window, 'visualViewport', { value: Object.assign("
        "new EventTarget(), { height: innerHeight, scale: 1 }) })"
    )
    signed_in(page, device.url)
    page.evaluate(
        "() => { visualViewport.height = innerHeight - 300;"
        " visualViewport.dispatchEvent(new Event('resize')); }"
    )
    box = page.get_by_test_id("prompt").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 600
    assert KEY not in page.url
