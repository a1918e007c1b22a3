"""Choosing a model on the page: from the welcome to the settings, trying one, choosing one."""

from __future__ import annotations

import os
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

from app.models import servers
from dragon.inference.choice import ModelChoice
from dragon.models import EMBEDDED_WRITER
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL
from harness.services import KEY, ROOT, free_port
from tests.browser.conftest import Scripted, signed_in


@pytest.fixture
def served() -> Served:
    return Served(*ModelChoice(model=str(SMALL_MODEL)).load())


@pytest.fixture
def alone(tmp_path: Path, embedded_gguf: Path, corpus: Path) -> Iterator[str]:
    """The address of a device in a home of its own, which has two more models in it.

    `dragon up` has started it, with its peer.
    """
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(embedded_gguf, models / "small.gguf")
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
        monkeypatch.setattr(servers, "PORTS", {int(url.rpartition(":")[2]): "vLLM"})
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


@pytest.mark.timeout(600)  # it starts both services twice
def test_a_model_that_does_not_start_is_not_taken(page: Page, alone: str, tmp_path: Path) -> None:
    signed_in(page, alone)
    page.get_by_test_id("open-settings").click()
    page.set_viewport_size({"width": 390, "height": 400})  # the list is longer than what is seen
    page.locator("[data-name='small']").get_by_test_id("use-model").click()
    expect(page.get_by_test_id("restart")).to_be_focused()
    expect(page.get_by_test_id("restart")).to_be_in_viewport()
    (tmp_path / "models" / "small.gguf").write_bytes(b"nothing")
    with page.expect_navigation(timeout=300_000):
        page.get_by_test_id("restart").click()
        # It goes on purpose, and the page does not speak of a device that cannot be reached.
        expect(page.get_by_test_id("model-now")).to_contain_text("DRAGON is starting again")
        expect(page.get_by_test_id("peer-status")).to_contain_text("Restarting")
        expect(page.get_by_test_id("connection")).to_be_hidden()
    expect(page.locator("#models")).to_contain_text("small could not be started")
    expect(page.get_by_test_id("model-now")).to_contain_text("the built-in model")
    expect(page.get_by_test_id("restart")).to_have_count(0)


@pytest.mark.timeout(600)  # it starts both services twice
def test_from_the_welcome_to_a_model(page: Page, alone: str) -> None:
    signed_in(page, alone)
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
    expect(page.get_by_test_id("model-now")).to_contain_text("small will be used after a restart")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("upcoming")).to_contain_text("small will be used after a restart")
    page.get_by_test_id("upcoming-open").click()
    expect(page.get_by_test_id("restart")).to_be_in_viewport()
    page.reload()
    page.get_by_test_id("open-settings").click()
    expect(page.get_by_test_id("model-now")).to_contain_text("small will be used after a restart")
    with page.expect_navigation(timeout=300_000):
        page.get_by_test_id("restart").click()
    # The settings open by themselves to say so.
    expect(page.get_by_test_id("model-now")).to_contain_text("started again. small is in use")
    expect(page.get_by_test_id("restart")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("upcoming")).to_be_hidden()
    expect(page.get_by_test_id("peer-status")).to_contain_text("Cloud: when needed")
    page.reload()
    expect(page.get_by_test_id("peer-status")).to_contain_text("Cloud: when needed")
    expect(page.get_by_test_id("model-now")).to_be_hidden()
