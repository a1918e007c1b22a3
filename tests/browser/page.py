"""The chat page as the browser tests see it: what a person does, in the page's own terms.

Everything is found by the `data-testid` hooks of `static/`, so the look may change freely.
Every wait has Playwright's timeout, which the test sets on the `Page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from playwright.sync_api import FilePayload, Locator, Page, expect

Side = Literal["private", "public"]
AnswerState = Literal["streaming", "done", "stopped", "error"]
Panel = Literal["documents", "who", "ledger", "live"]
PeerState = Literal["connected", "connecting", "refused", "unknown"]

# Collects in `window.shifts` what moves without the person's doing, and how much.
WATCH_SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      const moved = entry.sources.map(({node}) => node?.className ?? node?.parentNode?.className);
      window.shifts.push([entry.value, ...moved]);
    }
  }).observe({type: "layout-shift", buffered: false});
}"""

# The words of each highlight, by its name.
SHADED = """() => Object.fromEntries([...CSS.highlights].map(([name, ranges]) =>
  [name, [...ranges].map((range) => range.toString())]))"""


class ChatPage:
    """A signed-in browser tab. `timeout` is how long each wait may take, in seconds."""

    def __init__(self, page: Page, timeout: float = 60) -> None:
        self.page = page
        self._timeout = timeout * 1000
        page.set_default_timeout(self._timeout)

    def sign_in(self, url: str) -> None:
        """Opens the printed sign-in link and waits until the page has its connection."""
        self.page.goto(url)
        expect(self.peer_status).not_to_have_attribute(
            "data-state", "unknown", timeout=self._timeout
        )

    def open_panel(self, name: Panel) -> Locator:
        """Opens a panel at the side, if it is not open."""
        panel = self.page.locator(f"#panel-{name}")
        if panel.is_visible():
            return panel
        if name == "documents":
            self.page.get_by_test_id("open-documents").click()
        else:
            self.page.evaluate("() => document.activeElement.blur()")
            self.page.keyboard.press({"who": "p", "ledger": "w", "live": "l"}[name])
        return panel

    def about(self, name: Panel, answer: Locator | None = None) -> Locator:
        """Opens the panel on an answer, the last one by default, with this tab."""
        (answer or self.last_answer).get_by_test_id("summary").click()
        self.page.locator(f"#tab-{name}").click()
        return self.page.get_by_test_id(name)

    # Documents

    def upload(self, *paths: Path, wait: bool = True) -> None:
        """Uploads by the button; `wait` waits until each file is processed or refused."""
        self.page.get_by_test_id("upload").set_input_files([str(path) for path in paths])
        if wait:
            for path in paths:
                self.wait_document(path.name)

    def add(self, name: str, content: str | bytes) -> Literal["processed", "error"]:
        """Uploads this as a file, waits until it is processed or refused, and says which."""
        data = content.encode() if isinstance(content, str) else content
        file: FilePayload = {"name": name, "mimeType": "text/plain", "buffer": data}
        self.page.get_by_test_id("upload").set_input_files([file])
        return self.wait_document(name)

    def wait_document(self, name: str) -> Literal["processed", "error"]:
        """Waits until the document's ingestion has ended, and says how."""
        settled = self.document(name).and_(
            self.page.locator("[data-status=processed], [data-status=error]")
        )
        settled.wait_for(state="attached", timeout=self._timeout)
        return "processed" if settled.get_attribute("data-status") == "processed" else "error"

    def document(self, name: str) -> Locator:
        """The row of the document with exactly this name."""
        return self.documents.filter(has=self.page.get_by_title(name, exact=True))

    @property
    def documents(self) -> Locator:
        return self.page.get_by_test_id("document")

    def delete(self, name: str) -> None:
        """Deletes a document the device has, confirms, and waits until its row is gone."""
        self.open_panel("documents")
        row = self.document(name)
        row.get_by_test_id("delete-document").click()
        self.page.get_by_test_id("confirm-delete").click()
        expect(row).to_have_count(0, timeout=self._timeout)

    def dismiss(self, name: str) -> None:
        """Removes the row of a file that the device did not take; nothing asks back."""
        self.open_panel("documents")
        row = self.document(name)
        row.get_by_test_id("delete-document").click()
        expect(row).to_have_count(0, timeout=self._timeout)

    # Conversation

    def ask(self, text: str, *, private: bool = False) -> Locator:
        """Asks, and returns the new answer, which is still being written."""
        count = self.answers.count()
        self.page.get_by_test_id("private-switch").set_checked(private)
        self.page.get_by_test_id("prompt").fill(text)
        self.page.get_by_test_id("send").click()
        answer = self.answers.nth(count)
        answer.wait_for()
        return answer

    def answered(self, text: str, *, private: bool = False) -> Locator:
        """Asks, and returns the answer once it has ended."""
        answer = self.ask(text, private=private)
        self.wait_answer(answer)
        return answer

    def wait_answer(self, answer: Locator | None = None) -> AnswerState:
        """Waits until an answer (the last one by default) has ended, and says how."""
        answer = answer or self.last_answer
        expect(answer).not_to_have_attribute("data-state", "streaming", timeout=self._timeout)
        return self.state(answer)

    def wait_text(self, answer: Locator | None = None) -> None:
        """Waits for the first text of an answer."""
        segment = (answer or self.last_answer).get_by_test_id("answer-text")
        expect(segment).not_to_be_empty(timeout=self._timeout)

    def stop(self) -> None:
        """Presses stop, and waits until the answer has ended."""
        self.page.get_by_test_id("stop").click()
        self.wait_answer()

    def state(self, answer: Locator) -> AnswerState:
        states: dict[str | None, AnswerState] = {
            "streaming": "streaming",
            "done": "done",
            "stopped": "stopped",
            "error": "error",
        }
        return states[answer.get_attribute("data-state")]

    def text(self, answer: Locator | None = None) -> str:
        """The answer's own text, without the notes of seams and without its sources."""
        shown = (answer or self.last_answer).get_by_test_id("answer-text")
        text: str = shown.evaluate(
            "body => { const copy = body.cloneNode(true);"
            " copy.querySelectorAll('.seam, .code-head').forEach((e) => e.remove());"
            " return copy.textContent; }"
        )
        return text

    def sources(self, side: Side | None = None, answer: Locator | None = None) -> Locator:
        """The sources under an answer (the last one by default), of one side or both, unfolded.

        What only comes near is one where there is nothing else.
        """
        answer = answer or self.last_answer
        fold = answer.get_by_test_id("sources")
        if fold.is_visible() and fold.get_attribute("open") is None:
            fold.locator("> summary").click()
            expect(fold).to_have_attribute("data-unfolded", "true")
        hook = '[data-testid="source"]' + (f'[data-side="{side}"]' if side else "")
        return answer.locator(f'{hook}:not([data-testid="sources.closest"] *)')

    def open_source(self, source: Locator) -> str:
        """Opens a source, unless the only one is open, and returns its passage."""
        if source.get_attribute("open") is None:
            source.locator("summary").click()
        return source.get_by_test_id("passage").inner_text()

    def seams(self, answer: Locator | None = None) -> Sequence[bool]:
        """For each seam in the answer: whether the cloud joined there (or was lost)."""
        found = (answer or self.last_answer).get_by_test_id("seam").all()
        return [seam.get_attribute("data-joint") == "true" for seam in found]

    def new_chat(self) -> None:
        """Begins an empty conversation."""
        self.page.get_by_test_id("new-chat").click()
        expect(self.answers).to_have_count(0, timeout=self._timeout)

    @property
    def conversations(self) -> Locator:
        """The rows of the list of conversations."""
        return self.page.get_by_test_id("conversation")

    def menu(self, title: str, action: str) -> None:
        """Chooses an action for the conversation with this title."""
        row = self.conversations.filter(has_text=title).first
        row.hover()
        row.get_by_test_id("conversation-menu").click()
        self.page.get_by_test_id(action).click()

    @property
    def answers(self) -> Locator:
        return self.page.get_by_test_id("answer")

    @property
    def last_answer(self) -> Locator:
        return self.answers.last

    def how_written(self, answer: Locator | None = None) -> Locator:
        """Opens the panel on how an answer was written, the last one by default."""
        return self.about("live", answer)

    # The cloud

    @property
    def peer_status(self) -> Locator:
        return self.page.get_by_test_id("peer-status")

    def wait_peer(self, state: PeerState) -> None:
        """Waits until the header shows this state of the cloud."""
        expect(self.peer_status).to_have_attribute("data-state", state, timeout=self._timeout)
