"""How heavy the page is, and how smoothly it shows a long answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page

from harness.services import Service
from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import WATCH_SHIFTS

BUDGET_BYTES = 220_000
PARAGRAPH = (
    "## A heading of the answer\n\nSome **bold** words and `code` in a paragraph that goes on for "
    "a while, so that there is something to lay out.\n\n- one item\n- another item\n\n"
    "```python\ndef f(x):\n    return x + 1  # a comment\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
PARAGRAPHS = 100

# Marks in the trace when a third of the paragraphs is there, two thirds, and all.
_UNTIL_DONE = """(answer, paragraphs) => new Promise((resolve) => {
  const marks = [["third", paragraphs / 3], ["two thirds", 2 * paragraphs / 3]];
  const code = answer.getElementsByClassName("code");
  performance.mark("asked");
  const look = () => {
    while (marks.length && code.length >= marks[0][1]) performance.mark(marks.shift()[0]);
    if (answer.dataset.state === "done") {
      performance.mark("done");
      resolve();
    }
  };
  new MutationObserver(look).observe(answer, {
    attributeFilter: ["data-state"], childList: true, subtree: true,
  });
  look();
})"""


def test_the_page_is_small(page: Page, device: Service) -> None:
    """All that a first visit loads, headers included, as it comes over the wire."""
    network = page.context.new_cdp_session(page)
    loaded: list[float] = []
    network.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    network.send("Network.enable")
    signed_in(page, device.url)
    page.wait_for_load_state("networkidle")
    assert len(loaded) > 30, "else not all was counted"
    assert sum(loaded) < BUDGET_BYTES


def test_a_long_answer_streams_smoothly(page: Page, browser: Browser, scripted: Scripted) -> None:
    """Ten thousand tokens: nothing jumps, and text at the end costs what it does at the beginning.

    Work is counted in elements styled and objects laid out, which the machine's speed does not
    change. A part of the answer takes some for each frame and some for its text, so it must not
    have grown both in all and by frame.
    """
    answer_text = PARAGRAPH * PARAGRAPHS
    assert len(scripted.generation.tokenizer.encode(answer_text)) >= 10_000
    scripted.generation.script, scripted.generation.delay = answer_text, 0.001
    page.emulate_media(reduced_motion="no-preference")
    chat = signed_in(page, scripted.url)
    page.evaluate(WATCH_SHIFTS)
    categories = ["devtools.timeline", "disabled-by-default-devtools.timeline", "blink.user_timing"]
    browser.start_tracing(page=page, categories=categories)
    answer = chat.ask("Tell me everything.")
    answer.evaluate(_UNTIL_DONE, PARAGRAPHS)
    first, last = work_of_thirds(json.loads(browser.stop_tracing())["traceEvents"])
    assert first.frames > 10
    assert last.frames > 10
    print(first, last)
    assert last.elements < 3 * first.elements * max(1, last.frames / first.frames)
    assert answer.locator(".code").count() == PARAGRAPHS
    shifts = page.evaluate("() => window.shifts")
    assert sum(value for value, *_ in shifts) < 0.01, shifts


@dataclass
class Work:
    """What the page's thread did for a part of the answer."""

    frames: int = 0
    elements: int = 0  # styled or laid out


def work_of_thirds(events: list[dict[str, Any]]) -> tuple[Work, Work]:
    """The work for the first third of the paragraphs, and for the last."""
    (asked, pid, tid), (third, *_), (two_thirds, *_), (done, *_) = (
        next((e["ts"], e["pid"], e["tid"]) for e in events if e["name"] == name)
        for name in ("asked", "third", "two thirds", "done")
    )
    first, last = Work(), Work()
    for event in events:
        if (event["pid"], event["tid"]) != (pid, tid):
            continue
        if asked <= event["ts"] < third:
            part = first
        elif two_thirds <= event["ts"] < done:
            part = last
        else:
            continue
        if event["name"] == "FireAnimationFrame":
            part.frames += 1
        elif event["name"] == "UpdateLayoutTree":
            part.elements += event.get("args", {}).get("elementCount", 0)
        elif event["name"] == "Layout":
            part.elements += event.get("args", {}).get("beginData", {}).get("dirtyObjects", 0)
    return first, last
