"""How heavy the page is, and how smoothly it shows a long answer."""

from __future__ import annotations

import itertools

from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import Scripted, signed_in

BUDGET = 150_000
PARAGRAPH = (
    "## A heading of the answer\n\nSome **bold** words and `code` in a paragraph that goes on for "
    "a while, so that there is something to lay out.\n\n- one item\n- another item\n\n"
    "```python\ndef f(x):\n    return x + 1  # a comment\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)

_MEASURE = """() => {
  window.shift = 0;
  window.shifts = [];
  window.frames_ms = [];
  window.long_ms = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      window.shift += entry.value;
      const moved = entry.sources.map(({node}) => node?.className ?? node?.parentNode?.className);
      window.shifts.push([entry.value, ...moved]);
    }
  }).observe({type: "layout-shift", buffered: false});
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.long_ms.push(entry.duration);
  }).observe({type: "longtask", buffered: false});
}"""


def test_the_page_is_small(page: Page, scripted: Scripted) -> None:
    """All that a first visit loads, as it comes over the wire."""
    loaded: list[Request] = []
    page.on("requestfinished", lambda request: loaded.append(request))
    signed_in(page, scripted.url)
    page.wait_for_load_state("networkidle")
    assert any(request.url.endswith("main.js") for request in loaded)
    sizes = [request.sizes() for request in loaded]
    assert sum(s["responseBodySize"] + s["responseHeadersSize"] for s in sizes) < BUDGET


def test_a_long_answer_streams_smoothly(page: Page, scripted: Scripted) -> None:
    """Ten thousand tokens: nothing jumps, and the end costs the browser no more than the beginning.

    How long a frame takes depends on the machine, so what is compared is the scripting and layout
    of the first and of the last third.
    """
    scripted.generation.script, scripted.generation.delay = PARAGRAPH * 85, 0.001
    chat = signed_in(page, scripted.url)
    page.evaluate(_MEASURE)
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")

    def spent() -> float:
        found = metrics.send("Performance.getMetrics")["metrics"]
        values = {each["name"]: each["value"] for each in found}
        return float(values["ScriptDuration"] + values["LayoutDuration"])

    answer = chat.ask("Tell me everything.")
    blocks = answer.locator(".block")
    marks = [spent()]
    for third in (1, 2, 3):
        blocks.nth(85 * 5 * third // 3 - 1).wait_for(state="attached", timeout=120_000)
        marks.append(spent())
    expect(answer).to_have_attribute("data-state", "done", timeout=120_000)
    first, _, last = (b - a for a, b in itertools.pairwise(marks))
    assert last < 3 * first, marks
    assert answer.locator(".code").count() == 85
    assert page.evaluate("() => window.shift") < 0.01, page.evaluate("() => window.shifts")
