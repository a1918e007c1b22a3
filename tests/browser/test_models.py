"""Choosing a model on the page: from the welcome to the settings, trying one, choosing one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from dragon.inference.choice import ModelChoice
from dragon.models import EMBEDDED_WRITER
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL
from harness.services import KEY, ROOT, free_port
from tests.browser.conftest import Scripted, signed_in
from tests.browser.page import ChatPage

_LOADED_MS = 240_000  # both services load it, beside those that answer
PACED = re.compile(r"\d words per second")
# Collects in `window.headers` what the header says of the cloud.
_WATCH_HEADER = """() => {
  window.headers = [];
  const line = document.querySelector("[data-testid=peer-status]");
  const look = () => window.headers.push(line.textContent.trim());
  new MutationObserver(look).observe(line, { childList: true, subtree: true });
}"""


@pytest.fixture
def served() -> Served:
    return Served(*ModelChoice(model=str(SMALL_MODEL)).load())


@pytest.fixture
def alone(tmp_path: Path, embedded_gguf: Path, corpus: Path) -> Iterator[str]:
    """The address of a device in a home of its own, which has three more models in it.

    `dragon up` has started it, with its peer.
    """
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(embedded_gguf, models / "small.gguf")
    whole = embedded_gguf.read_bytes()
    (models / "half.gguf").write_bytes(whole[: len(whole) // 2])  # its header says it is fine
    (models / "damaged.gguf").write_bytes(b"nothing")
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
        "DRAGON_API_KEY": KEY,
        "DRAGON_PORT": str(port),
        "DRAGON_PEER_PORT": str(free_port()),
        "DRAGON_PEER_CORPUS": str(corpus),
    }
    command = [sys.executable, "-m", "cli", "up"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as process:
        try:
            while process.poll() is None:
                with suppress(httpx.TransportError):
                    if httpx.get(f"{url}/ready", timeout=60).status_code == 200:
                        break
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def test_a_server_that_wants_a_key_is_given_it_on_the_page(
    page: Page,
    scripted: Scripted,
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(served, Behaviour(key="sesame", root=str(SMALL_MODEL))) as url:
        monkeypatch.setattr("app.models.found.PORTS", {int(url.rpartition(":")[2]): "vLLM"})
        signed_in(page, scripted.url)
        page.get_by_test_id("open-settings").click()
        row = page.locator(f"[data-name='{url}']")
        expect(row).to_contain_text("It asks for a key.")
        key = row.get_by_label("API key")
        expect(key).to_have_attribute("type", "password")
        key.fill("guessed")
        row.get_by_test_id("give-key").click()
        expect(row.get_by_role("alert")).to_have_text("It does not accept this key.")
        expect(key).to_have_value("")
        key.fill("sesame")
        key.press("Enter")
        expect(key).to_have_count(0)
        row.get_by_test_id("try-model").click()
        expect(row.get_by_test_id("trial-verdict")).to_contain_text("a program of its own")
        assert "sesame" not in page.content()
        assert "sesame" not in str(page.evaluate("() => ({ ...localStorage, ...sessionStorage })"))


@pytest.mark.timeout(900)  # it starts both services four times
def test_from_the_welcome_to_a_model_and_back_in_mid_chat(page: Page, alone: str) -> None:
    chat = signed_in(page, alone)
    to_a_model(page)
    and_back(chat)
    a_broken_one_is_not_taken(page)


def to_a_model(page: Page) -> None:
    expect(page.get_by_test_id("in-use")).to_contain_text(f"{EMBEDDED_WRITER.stem}, answers quote")
    page.get_by_test_id("choose-model").click()
    expect(page.get_by_test_id("model-now")).to_contain_text("the built-in model")
    row = {name: page.locator(f"[data-name='{name}']") for name in ("small", "damaged")}
    expect(row["damaged"]).to_contain_text("damaged.gguf is damaged")
    expect(row["damaged"].get_by_role("button")).to_have_count(0)
    expect(row["small"]).to_contain_text("more memory")
    row["small"].get_by_test_id("try-model").click()
    expect(row["small"].get_by_test_id("trial-answer")).not_to_be_empty()
    verdict = row["small"].get_by_test_id("trial-verdict")
    expect(verdict).to_contain_text("It works: it quoted the right sentence of the text.")
    expect(verdict).to_contain_text("words per second")
    expect(verdict).to_contain_text("It needs about")
    row["small"].get_by_test_id("use-model").click()
    expect(page.get_by_test_id("model-now")).to_contain_text("small is being loaded")
    expect(page.get_by_test_id("model-now")).to_have_text("small is in use.")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("upcoming")).to_be_hidden()
    expect(page.get_by_test_id("peer-status")).to_contain_text("Cloud: when needed")
    # The built-in model has written nothing here yet.
    page.get_by_test_id("model-picker").click()
    paced = page.get_by_test_id("pick-model").filter(has_text=PACED)
    expect(paced).to_have_count(1)
    expect(paced).to_contain_text("small")
    page.keyboard.press("Escape")


def and_back(chat: ChatPage) -> None:
    """To the built-in model, while the other one answers."""
    page, name = chat.page, EMBEDDED_WRITER.stem
    picker, upcoming = page.get_by_test_id("model-picker"), page.get_by_test_id("upcoming")
    letter = "The gym locker's code is 4711. The key of the shed hangs in the pantry."
    chat.add("letter.txt", letter)
    before = chat.answered("What is the gym locker's code?")
    picker.click()
    own = page.get_by_test_id("pick-model").filter(has_text=name)
    expect(own).to_have_attribute("aria-checked", "false")
    expect(own).not_to_contain_text(PACED)
    own.click()
    expect(upcoming).to_contain_text(f"{name} is being loaded")
    page.reload()
    expect(upcoming).to_contain_text(f"{name} is being loaded")
    chat.wait_answer(before)
    page.evaluate(_WATCH_HEADER)
    meanwhile = chat.answered("Where is the key of the shed?")
    assert "pantry" in chat.text(meanwhile)
    page.get_by_test_id("prompt").fill("What is the code")
    expect(picker).to_contain_text(name, timeout=_LOADED_MS)
    expect(upcoming).to_be_hidden()
    expect(page.get_by_test_id("prompt")).to_have_value("What is the code")
    expect(page.get_by_test_id("send")).to_be_enabled()
    after = chat.answered("What is the gym locker's code?")
    assert "4711" in chat.text(after)
    assert "4711" in chat.text(before)
    assert "Device unreachable" not in page.evaluate("() => window.headers")
    picker.click()
    expect(own).to_have_attribute("aria-checked", "true")
    expect(own).to_contain_text(PACED)
    page.keyboard.press("Escape")


def a_broken_one_is_not_taken(page: Page) -> None:
    page.get_by_test_id("model-picker").click()
    page.get_by_test_id("pick-model").filter(has_text="half").click()
    upcoming, name = page.get_by_test_id("upcoming"), EMBEDDED_WRITER.stem
    expect(upcoming).to_contain_text(f"Until it is ready, {name} answers")
    expect(upcoming).to_contain_text(f"half could not be loaded, so {name}")
    expect(page.get_by_test_id("connection")).to_be_hidden()
    page.get_by_test_id("upcoming-open").click()
    expect(page.locator("#models")).to_contain_text("half could not be loaded")
    expect(page.get_by_test_id("model-now")).to_contain_text("the built-in model")


def test_a_model_that_has_answered_says_its_pace_in_the_picker(german: ChatPage) -> None:
    pace = re.compile(r"\d Wörter je Sekunde")
    picker = german.page.get_by_test_id("model-picker")
    picker.click()
    own = german.page.locator("[data-testid=pick-model][aria-checked=true]")
    expect(own).to_be_visible()
    expect(own).not_to_contain_text(pace)
    german.page.keyboard.press("Escape")
    german.answered("What is the capital of Kenya?")
    picker.click()
    expect(own).to_contain_text(pace)
