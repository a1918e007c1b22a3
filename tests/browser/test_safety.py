"""What a text, a document's name or a source says is shown, never run, and loads nothing."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from harness.services import Service
from tests.browser.conftest import Scripted, signed_in

HOSTILE = """<script>window.hit = 1</script>

<img src="https://elsewhere.example/a.png" onerror="window.hit = 1">

<svg onload="window.hit = 1"><use href="https://elsewhere.example/b.svg#x"/></svg>

[click](javascript:window.hit=1) ![alt](https://elsewhere.example/c.png)

[named](https://elsewhere.example/d "&quot; onmouseover=&quot;window.hit=1")

| <iframe src="https://elsewhere.example/e"></iframe> |
|---|
| <style>@import "https://elsewhere.example/f.css";</style> |

```html" onmouseover="window.hit=1
<script>window.hit = 1</script>
```

<a href="data:text/html,<script>window.hit=1</script>">data</a>

<javascript:window.hit=1> <https://elsewhere.example/g> [r][reference] ![i][reference]

[reference]: javascript:window.hit=1

[entity](&#106;avascript&colon;window.hit=1) [spaced](java\nscript:window.hit=1) [vb](vbscript:x)

<base href="https://elsewhere.example/">

<meta http-equiv="refresh" content="0;url=//elsewhere.example">

<form action="https://elsewhere.example/h"><button formaction="javascript:window.hit=1"></form>

<math><mtext><table><mglyph><style><!--</style>
<img title="--&gt;&lt;img src=1 onerror=window.hit=1&gt;">

<template><script>window.hit=1</script></template>

<noscript><p title="</noscript><img src=x onerror=window.hit=1>">

~~~svg style=background:url(https://elsewhere.example/i)
<svg><animate onbegin=window.hit=1 attributeName=x dur=1s>
~~~

\ue000\ue001 ![a"onerror="window.hit=1](x"onerror="window.hit=1) \u202egnp.exe

> > > > > > > > > > > > > > > > <details open ontoggle=window.hit=1>
"""


FORBIDDEN = (
    "script, img, svg, iframe, style, base, meta, form, math, template, object, embed, details,"
    " [onerror], [onload], [onmouseover], [ontoggle], [onbegin], [style], [formaction]"
)


class Watch:
    """What a page loads, and what its policy had to stop."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => { window.stopped = e.blockedURI });"
        )

    def check(self, page: Page, url: str) -> None:
        own = (url, url.replace("http", "ws"), "data:", "blob:")
        assert [found for found in self.requests if not found.startswith(own)] == []
        assert self.faults == []
        assert page.evaluate("() => [window.hit, window.stopped]") == [None, None]


def test_hostile_markdown_runs_nothing(page: Page, scripted: Scripted) -> None:
    watch = Watch(page)
    scripted.generation.script = HOSTILE
    chat = signed_in(page, scripted.url)
    answer = chat.ask(HOSTILE)
    assert chat.wait_answer(answer) == "done"
    for link in answer.locator("a").all():
        link.hover()
    answer.locator(".code-head").first.hover()
    assert answer.get_by_test_id("answer-text").locator(FORBIDDEN).count() == 0
    for link in answer.get_by_test_id("answer-text").locator("a").all():
        assert (link.get_attribute("href") or "").startswith(("http:", "https:", "mailto:", "x"))
        assert link.get_attribute("target") == "_blank"
    page.reload()
    expect(chat.last_answer).to_contain_text("window.hit = 1")
    expect(chat.conversations.first).to_contain_text("<script>")
    page.get_by_test_id("search").fill("window.hit")
    expect(page.locator(".conversation-found").first).to_contain_text("window.hit")
    with page.expect_download() as download:
        chat.menu("<script>", "export-markdown")
    assert "/" not in download.value.suggested_filename
    watch.check(page, scripted.url)


def test_a_hostile_document_name_and_text_run_nothing(page: Page, device: Service) -> None:
    name = '<img src=x onerror="window.hit=1">.txt'
    watch = Watch(page)
    chat = signed_in(page, device.url)
    chat.open_panel("documents")
    page.get_by_test_id("new-project").click()
    page.get_by_test_id("project-name").fill(name)
    page.get_by_test_id("project-save").click()
    expect(page.get_by_test_id("collection")).to_have_value(name)
    assert chat.add(name, f"The code of the hen house is 5512. {HOSTILE}") == "processed"
    row = chat.document(name)
    answer = chat.answered("What is the code of the hen house?")
    assert "5512" in chat.open_source(chat.sources("private", answer).first)
    page.get_by_test_id("scope").click()
    expect(page.locator("#scope-menu").get_by_label(name).first).to_be_visible()
    page.keyboard.press("Escape")
    chat.about("who", answer)
    page.get_by_test_id("who-text").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#card")).to_contain_text("<img")
    chat.open_panel("documents")
    row.get_by_test_id("preview-document").click()
    expect(page.get_by_test_id("preview-text")).to_contain_text("5512")
    page.keyboard.press("Escape")
    row.get_by_test_id("delete-document").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("<img")
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("receipt")).to_contain_text("<img")
    expect(row).to_have_count(0)
    watch.check(page, device.url)


def test_the_page_asks_for_nothing_but_the_device(page: Page, device: Service) -> None:
    watch = Watch(page)
    chat = signed_in(page, device.url)
    chat.answered("What is the capital of Kenya?")
    for panel in ("documents", "live", "ledger"):
        chat.open_panel(panel)
    page.get_by_test_id("open-settings").click()
    watch.check(page, device.url)


def test_the_policy_is_strict(page: Page, device: Service) -> None:
    reply = page.goto(device.url)
    assert reply is not None
    policy = reply.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "http:" not in policy
