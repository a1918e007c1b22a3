"""How heavy the page is, and how smoothly it shows a long answer."""

from __future__ import annotations

import json
from bisect import bisect
from typing import Any

from playwright.sync_api import Browser, Page

from harness.services import Service
from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import WATCH_SHIFTS

BUDGET_BYTES = 150_000
PARAGRAPH = (
    "## A heading of the answer\n\nSome **bold** words and `code` in a paragraph that goes on for "
    "a while, so that there is something to lay out.\n\n- one item\n- another item\n\n"
    "```python\ndef f(x):\n    return x + 1  # a comment\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
PARAGRAPHS = 100

_UNTIL_DONE = """(answer) => new Promise((resolve) => {
  const look = () => answer.dataset.state === "done" && resolve();
  new MutationObserver(look).observe(answer, {attributeFilter: ["data-state"]});
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
    """Ten thousand tokens: nothing jumps, and frames at the end cost what they do at the beginning.

    A frame is what the page's thread does from one that it draws to the next, in the time that it
    had the processor. How long the longest takes depends on the machine, and is printed.
    """
    answer_text = PARAGRAPH * PARAGRAPHS
    assert len(scripted.generation.tokenizer.encode(answer_text)) >= 10_000
    scripted.generation.script, scripted.generation.delay = answer_text, 0.001
    chat = signed_in(page, scripted.url)
    page.evaluate(WATCH_SHIFTS)
    categories = ["devtools.timeline", "disabled-by-default-devtools.timeline", "__metadata"]
    browser.start_tracing(page=page, categories=categories)
    answer = chat.ask("Tell me everything.")
    answer.evaluate(_UNTIL_DONE)  # asking again and again would count among the page's own work
    frames = frame_times(json.loads(browser.stop_tracing())["traceEvents"])
    assert len(frames) > 100
    third = len(frames) // 3
    first, last = frames[:third], frames[-third:]
    print(
        f"{len(frames)} frames, the longest {max(frames):.0f} ms; {max(first):.0f}, {max(last):.0f}"
    )
    assert sum(last) < 3 * sum(first)
    assert max(last) < 3 * max(first)
    assert answer.locator(".code").count() == PARAGRAPHS
    shifts = page.evaluate("() => window.shifts")
    assert sum(value for value, *_ in shifts) < 0.01, shifts


def frame_times(events: list[dict[str, Any]]) -> list[float]:
    """Milliseconds of processor that the page's thread took for each frame that it drew."""
    thread = {(e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame"}
    assert len(thread) == 1, "one page draws"
    own = [event for event in events if (event["pid"], event["tid"]) in thread]
    edges = sorted(event["ts"] + event["dur"] for event in own if event["name"] == "Commit")
    spent = [0.0] * (len(edges) + 1)
    for event in own:
        if event["name"] == "RunTask" and "tdur" in event:
            # The task that draws a frame goes on for a moment after it: it counts where it begins.
            spent[bisect(edges, event["ts"])] += event["tdur"]
    return [microseconds / 1000 for microseconds in spent[1:-1]]
