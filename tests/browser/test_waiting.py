"""While one waits, the page says for what, can be stopped, and tells a device that is silent."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Scripted, signed_in

QUESTION = "Where is the boat kept?"


class Line:
    """Between the page and its device: holds back what either says, once told to."""

    def __init__(self, page: Page) -> None:
        self.held: list[tuple[WebSocketRoute, str]] = []
        self.holding = False
        page.route_web_socket("**/ws/chat", self._opened)

    def _opened(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(lambda frame: self._pass(server, str(frame)))
        server.on_message(lambda frame: self._pass(socket, str(frame)))

    def _pass(self, to: WebSocketRoute, frame: str) -> None:
        if self.holding:
            self.held.append((to, frame))
        else:
            to.send(frame)

    def let_go(self) -> None:
        self.holding = False
        for to, frame in self.held:
            to.send(frame)


def test_a_question_stays_on_the_page_and_a_silent_device_is_said(
    page: Page, scripted: Scripted
) -> None:
    line = Line(page)
    chat = signed_in(page, scripted.url)
    silent = [True]
    page.route("**/health", lambda route: route.abort() if silent else route.continue_())
    line.holding = True
    page.get_by_test_id("prompt").fill(QUESTION)
    page.get_by_test_id("send").click()
    sending = page.get_by_test_id("sending")
    expect(sending).to_contain_text(QUESTION)
    expect(sending.get_by_test_id("wait")).to_contain_text("Asking your device")
    expect(page.get_by_test_id("connection")).to_contain_text("not responding")
    silent.clear()
    line.let_go()
    chat.wait_answer()
    expect(sending).to_have_count(0)
    expect(page.locator(".bubble")).to_have_text([QUESTION])
    expect(page.get_by_test_id("connection")).to_be_hidden()


def test_stop_works_before_the_device_has_taken_the_question(
    page: Page, scripted: Scripted
) -> None:
    scripted.generation.delay = 0.2
    line = Line(page)
    chat = signed_in(page, scripted.url)
    line.holding = True
    page.get_by_test_id("prompt").fill(QUESTION)
    page.get_by_test_id("send").click()
    page.get_by_test_id("stop").click()
    line.let_go()
    chat.answers.first.wait_for()
    assert chat.wait_answer() == "stopped"


def test_a_long_step_counts_its_seconds_beside_the_usual_ones(
    page: Page, scripted: Scripted
) -> None:
    page.add_init_script("localStorage['dragon.waits'] ??= JSON.stringify({ sending: 8000 })")
    line = Line(page)
    chat = signed_in(page, scripted.url)
    line.holding = True
    page.get_by_test_id("prompt").fill(QUESTION)
    page.get_by_test_id("send").click()
    waited = page.get_by_test_id("waited")
    expect(waited).to_contain_text(re.compile(r"\d s, usually 8 s"))
    line.let_go()
    chat.wait_answer()
    learned = json.loads(page.evaluate("localStorage['dragon.waits']"))
    assert learned["sending"] < 8000
    assert "searching" in learned
