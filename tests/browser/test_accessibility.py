"""axe finds nothing serious: light, dark and narrow, with everything open that can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import Scripted, signed_in

SCRIPT = (
    "# A heading\n\nText with `code` and a [link](https://example.org), **bold**.\n\n"
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\ndef f(x):  # why\n    return 'a' + 1\n```\n"
)


def serious(page: Page) -> list[str]:
    found: dict[str, Any] = Axe().run(page).response
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def press(key: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press(key)

    return act


def nothing(_: Page) -> None:
    pass


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
)
def test_axe_finds_nothing_serious(
    browser: Browser, scripted: Scripted, scheme: str, width: int
) -> None:
    scripted.generation.script = SCRIPT
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 800},
        reduced_motion="reduce",
        bypass_csp=True,  # axe is put into the page as a script
    )
    page = context.new_page()
    chat = signed_in(page, scripted.url)
    assert serious(page) == []
    chat.ask("What does it look like?", private=True)
    chat.wait_answer()
    for act in (nothing, press("p"), press("d"), press("l"), press("w"), press("e")):
        act(page)
        assert serious(page) == []
    page.keyboard.press("Escape")
    for key in ("?", "s"):
        if width < 800 and page.locator("#inspector").is_visible():
            page.locator("#inspector-close").click()
        press(key)(page)
        assert serious(page) == []
        page.keyboard.press("Escape")
    context.close()


def test_motion_is_reduced(browser: Browser, scripted: Scripted) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    signed_in(page, scripted.url)
    moving = page.evaluate(
        "() => document.getAnimations().filter((each) => each.playState === 'running').length"
    )
    assert moving == 0
    assert page.locator(".chevron, .sidebar").first.evaluate(
        "e => getComputedStyle(e).transitionDuration"
    ) in ("0s", "")
    context.close()
