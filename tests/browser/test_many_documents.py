"""A list of thousands of documents: scrolling it, and reading an answer beside it, stays smooth.

Work is counted in elements styled and objects laid out, which the machine's speed does not change.
What the longest one takes is printed: `pytest -s`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import Scripted, signed_in
from tests.browser.test_budget import PARAGRAPH

FEW, MANY = 500, 5000
WORDS = 2000
_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel"]
_DEVTOOLS = "blink.mojom.DevToolsS"
_DONE = """(answer) => new Promise((resolve) => {
  new MutationObserver(() => answer.dataset.state === "done" && resolve()).observe(answer, {
    attributeFilter: ["data-state"],
  });
})"""
_SCROLLED = """(list) => new Promise((resolve) => {
  let frames = 0;
  const step = () => {
    list.scrollTop += 120;
    if (++frames === 60) resolve();
    else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def listing(count: int) -> Callable[[Route], None]:
    """Replies with documents as the device lists them."""
    files = [
        {
            "id": f"file-{n}",
            "bytes": 1000 + n,
            "created_at": 1_700_000_000 + n,
            "filename": f"Report {n:04} of the year.pdf",
            "status": "processed",
            "collection": f"Project {n % 7}",
        }
        for n in range(count)
    ]
    return lambda route: route.fulfill(json={"data": files})


@dataclass
class Work:
    """What the page's thread did: elements styled or laid out, and its longest task.

    Of that it is the processor time, in milliseconds.
    """

    elements: int
    longest_ms: float

    @classmethod
    def of(cls, events: list[dict[str, Any]]) -> Work:
        """As a trace has it."""
        main = next(
            (each["pid"], each["tid"]) for each in events if each["name"] == "FireAnimationFrame"
        )
        own = [each for each in events if (each["pid"], each["tid"]) == main]
        styled = sum(
            each.get("args", {}).get("elementCount", 0)
            for each in own
            if each["name"] == "UpdateLayoutTree"
        )
        laid_out = sum(
            each.get("args", {}).get("beginData", {}).get("dirtyObjects", 0)
            for each in own
            if each["name"] == "Layout"
        )
        # What the test itself asks of the page is none of its work.
        ours = [each["ts"] for each in own if _DEVTOOLS in json.dumps(each.get("args"))]
        tasks = [
            each["tdur"]
            for each in own
            if each["name"].endswith("RunTask") and "tdur" in each
            if not any(each["ts"] <= time < each["ts"] + each["dur"] for time in ours)
        ]
        return cls(styled + laid_out, max(tasks, default=0) / 1000)


@contextmanager
def traced(browser: Browser, page: Page, works: list[Work]) -> Iterator[None]:
    """Adds the work of what is done within."""
    browser.start_tracing(page=page, categories=_CATEGORIES)
    yield
    works.append(Work.of(json.loads(browser.stop_tracing())["traceEvents"]))


def test_the_list_grows_as_it_is_scrolled_and_is_searched_as_a_whole(
    page: Page, scripted: Scripted
) -> None:
    page.route("**/v1/files", listing(300))
    chat = signed_in(page, scripted.url)
    panel = chat.open_panel("documents")
    expect(page.locator("#panel-count")).to_have_text("300")
    page.get_by_test_id("sort-documents").select_option("size")
    last = panel.get_by_test_id("document").filter(has_text="Report 0006 ")
    expect(last).to_have_count(0)
    page.get_by_test_id("find-document").fill("0006")
    expect(chat.documents).to_have_count(1)
    expect(last).to_be_visible()
    page.get_by_test_id("find-document").fill("")
    expect(chat.documents).not_to_have_count(1)
    expect(last).to_have_count(0)
    for _ in range(300):
        if last.count():
            break
        panel.evaluate("(list) => list.scrollBy(0, 2000)")
    expect(chat.documents).to_have_count(300)
    page.get_by_test_id("select").click()
    page.get_by_test_id("select-all").click()
    expect(page.get_by_role("group", name="Select")).to_contain_text("300 selected")


def test_it_takes_no_more_work_than_a_short_list(
    page: Page, browser: Browser, scripted: Scripted
) -> None:
    scripted.generation.script = PARAGRAPH * (WORDS // len(PARAGRAPH.split()))
    scripted.generation.delay = 0.001
    found = defaultdict[str, list[Work]](list)
    for count in (FEW, MANY):
        page.route("**/v1/files", listing(count))
        chat = signed_in(page, scripted.url)
        panel = chat.open_panel("documents")
        expect(page.locator("#panel-count")).to_have_text(str(count))
        with traced(browser, page, found["scrolling"]):
            panel.evaluate(_SCROLLED)
        with traced(browser, page, found["answering"]):
            chat.ask("Tell me everything.").evaluate(_DONE)
        page.unroute("**/v1/files")
    for doing, (few, many) in found.items():
        print(f"{doing}: beside {FEW} documents {few}, beside {MANY} {many}")
        assert many.elements < 3 * few.elements
