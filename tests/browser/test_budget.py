"""How heavy the page is, and how smoothly it shows a long answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Scripted, signed_in

STATIC = Path(__file__).resolve().parents[2] / "static"
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
    """All that a first visit loads, as it comes over the wire and as the files are."""
    sizes: dict[str, int] = {}
    page.on("response", lambda reply: sizes.__setitem__(reply.url, len(reply.body() or b"")))
    signed_in(page, scripted.url)
    page.wait_for_load_state("networkidle")
    assert any(url.endswith("main.js") for url in sizes)
    assert sum(sizes.values()) < BUDGET, sizes


@pytest.mark.parametrize("paragraphs", [150])
def test_a_long_answer_streams_without_shifts(
    page: Page, scripted: Scripted, paragraphs: int
) -> None:
    """Its second half costs the browser about what the first does: nothing grows with the text."""
    scripted.generation.script = PARAGRAPH * paragraphs
    chat = signed_in(page, scripted.url)
    page.evaluate(_MEASURE)
    answer = chat.ask("Tell me everything.")
    assert chat.wait_answer(answer) == "done"
    assert answer.locator(".code").count() == paragraphs
    assert page.evaluate("() => window.shift") < 0.01, page.evaluate("() => window.shifts")
