"""The main ways through the page in Firefox, the one of the distribution, by its own Marionette."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from marionette_driver import By, Wait
from marionette_driver.errors import NoSuchElementException, StaleElementException
from marionette_driver.keys import Keys
from marionette_driver.marionette import Marionette, WebElement

from harness.services import KEY, Service

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

pytestmark = pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed")


class Tab:
    """A page in Firefox: what is found by the `data-testid` hooks, once it is there."""

    def __init__(self, firefox: Marionette) -> None:
        self.firefox = firefox

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Waits until a condition holds; an element replaced meanwhile is looked for again."""
        Wait(
            self.firefox,
            timeout=60,
            ignored_exceptions=(NoSuchElementException, StaleElementException),
        ).until(lambda _: holds(), message=what)

    def all(self, hook: str) -> list[WebElement]:
        found: list[WebElement] = self.firefox.find_elements(
            By.CSS_SELECTOR, f'[data-testid="{hook}"]'
        )
        return found

    def last(self, hook: str) -> WebElement:
        self.until(lambda: self.all(hook), f"no {hook}")
        return self.all(hook)[-1]

    def click(self, hook: str) -> None:
        self.until(lambda: self.all(hook)[-1].is_displayed(), f"{hook} is not to be seen")
        self.last(hook).click()

    def type(self, hook: str, text: str) -> None:
        field = self.last(hook)
        field.clear()
        field.send_keys(text)

    def reads(self, hook: str, text: str) -> None:
        """Waits until the last of these holds a text."""
        self.until(lambda: text in self.last(hook).text, f"{hook} does not say {text}")

    def has(self, hook: str, attribute: str, value: str) -> None:
        self.until(
            lambda: self.last(hook).get_attribute(attribute) == value,
            f"{hook}: {attribute} is not {value}",
        )

    def ask(self, question: str) -> None:
        count = len(self.all("answer"))
        self.type("prompt", question)
        self.click("send")
        self.until(lambda: len(self.all("answer")) == count + 1, "no answer began")
        self.has("answer", "data-state", "done")


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marionette]:
    log = tmp_path_factory.mktemp("firefox") / "log"
    running = Marionette(
        bin=FIREFOX, headless=True, port=0, startup_timeout=180, gecko_log=str(log)
    )
    # As for people, the file input is hidden and the button before it opens it.
    running.start_session({"strictFileInteractability": False})
    running.set_window_rect(width=1280, height=900)
    yield running
    running.quit()
    running.cleanup()


@pytest.fixture
def tab(firefox: Marionette, device: Service) -> Tab:
    firefox.delete_all_cookies()
    firefox.navigate(f"{device.url}/sign-in?key={KEY}")
    firefox.execute_script("window.sessionStorage.clear()")  # the tab before may have been private
    firefox.refresh()
    tab = Tab(firefox)
    tab.has("peer-status", "data-state", "connected")
    return tab


def test_from_a_document_to_an_answer_and_its_redaction(
    tab: Tab, emptied: None, tmp_path: Path
) -> None:
    note = tmp_path / "shed.txt"
    note.write_text("The code of the bicycle shed is 4471-KX.")
    tab.last("upload").send_keys(str(note))
    tab.has("document", "data-status", "processed")
    tab.click("private-switch")
    tab.ask("What is the code of the bicycle shed?")
    tab.reads("answer-text", "4471-KX")
    tab.click("summary")
    tab.reads("ledger", "Nothing left this device")
    tab.firefox.find_element(By.ID, "tab-who").click()
    tab.reads("who-text", "4471-KX")
    tab.click("open-documents")
    tab.click("delete-document")
    tab.click("confirm-delete")
    tab.reads("receipt", "Quotes were removed")
    tab.until(lambda: "4471" not in tab.last("answer-text").text, "the code still stands")


def test_a_public_answer_a_reload_settings_and_a_project(tab: Tab) -> None:
    tab.ask("What is the capital of Kenya?")
    tab.reads("answer-text", "Nairobi")
    tab.firefox.refresh()
    tab.reads("answer", "Nairobi")
    tab.click("open-settings")
    tab.reads("model-now", "dragon-7m")
    tab.firefox.get_active_element().send_keys(Keys.ESCAPE)
    tab.type("search", "nairo")
    tab.until(
        lambda: (
            tab.firefox.find_element(By.CSS_SELECTOR, "[data-testid=conversation] mark").text
            == "Nairobi"
        ),
        "what was sought is not marked",
    )
    tab.last("search").clear()
    tab.click("new-project")
    tab.type("project-name", "Fox")
    tab.click("project-save")
    tab.reads("project-row", "Fox")
    mouse = tab.firefox.actions.sequence("pointer", "mouse", {"pointerType": "mouse"})
    mouse.pointer_move(0, 0, origin=tab.last("project-row")).perform()
    tab.click("project-menu")
    tab.click("project-delete")
    tab.click("confirm-delete")
    tab.until(lambda: not tab.all("project-row"), "the project still stands")
