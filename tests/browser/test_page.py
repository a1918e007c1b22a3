"""The page in Chromium against both real services."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from bench import services
from bench.services import KEY, Floor, Service, Setup
from tests import tiny
from tests.browser.page import ChatPage

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.services,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
NOTE = "The code of the bicycle shed is 4471-KX. Marta has the spare key of the flat."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return services.demo_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The embedded model, slowed down a little so that there is time to press stop."""
    setup = Setup(tmp_path_factory.mktemp("page"), {}, Floor(5), Floor(5))
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield running


@dataclass(frozen=True)
class Pair:
    device: Service
    peer: Service


@pytest.fixture
def endless_pair(corpus: Path, tmp_path: Path) -> Iterator[Pair]:
    """A model that never ends an answer by itself."""
    model = tiny.save(tmp_path / "model")
    setup = Setup(tmp_path, {"DRAGON_MODEL": str(model)}, Floor(30), Floor(30))
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield Pair(running, peer)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def signed_in(page: Page, service: Service) -> ChatPage:
    chat = ChatPage(page)
    chat.sign_in(f"{service.url}/sign-in?key={KEY}")
    return chat


def test_upload_ask_see_the_source_and_delete(page: Page, device: Service, tmp_path: Path) -> None:
    note = tmp_path / "shed.txt"
    note.write_text(NOTE)
    chat = signed_in(page, device)
    chat.wait_peer("connected")
    chat.upload(note)
    assert chat.wait_document("shed.txt") == "processed"
    answer = chat.ask("What is the code of the bicycle shed?")
    assert chat.wait_answer(answer) == "done"
    assert chat.text(answer).strip()
    assert "4471-KX" in chat.open_source(chat.sources("private", answer).first)
    chat.delete("shed.txt")
    chat.ask("What is the code of the bicycle shed?")
    chat.wait_answer()
    assert chat.sources("private").count() == 0


def test_stop_keeps_what_is_written(page: Page, endless_pair: Pair) -> None:
    chat = signed_in(page, endless_pair.device)
    answer = chat.ask("Tell me everything.")
    chat.wait_text(answer)
    chat.stop()
    assert chat.state(answer) == "stopped"
    assert chat.text(answer).strip()


def test_losing_the_cloud_shows_as_a_seam(page: Page, endless_pair: Pair) -> None:
    chat = signed_in(page, endless_pair.device)
    chat.wait_peer("connected")
    answer = chat.ask("Tell me everything.")
    chat.wait_text(answer)
    endless_pair.peer.kill()
    seam = answer.get_by_test_id("seam")
    seam.wait_for()
    assert chat.seams(answer) == [False]
    chat.stop()


def test_a_private_question_has_no_public_source(page: Page, device: Service) -> None:
    chat = signed_in(page, device)
    answer = chat.ask("What is the capital of Kenya?", private=True)
    assert chat.wait_answer(answer) == "done"
    assert chat.sources("public", answer).count() == 0


def test_without_the_link_the_page_says_how_to_sign_in(page: Page, device: Service) -> None:
    page.goto(device.url)
    assert "dragon key" in page.content()
