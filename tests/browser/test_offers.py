"""From the chat to a model of the hub: the picker, the list, its progress, choosing what came."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.faults.hub import Hub, serving
from tests.browser.conftest import Scripted, signed_in

NAME = "SmolLM2-360M"


@pytest.fixture
def hub(
    scripted: Scripted, embedded_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hub]:
    """The hub of a device that has no model but its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setattr("app.models.found.PORTS", {9: "nothing"})
    with serving(Hub(embedded_gguf.read_bytes())) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def test_a_model_is_got_from_the_chat_and_chosen(page: Page, scripted: Scripted, hub: Hub) -> None:
    hub.flows.clear()
    signed_in(page, scripted.url)
    page.get_by_test_id("model-picker").click()
    expect(page.get_by_test_id("pick-model").filter(has_text="dragon-7m")).to_be_visible()
    page.get_by_test_id("more-models").click()
    offer = page.get_by_test_id("offers").locator(f"[data-name='{NAME}']")
    expect(offer).to_be_in_viewport()
    expect(offer).to_contain_text("licence Apache-2.0")
    expect(offer).to_contain_text("Quick even on old machines")
    offer.get_by_test_id("get-offer").click()
    expect(offer.get_by_role("progressbar", name=NAME)).to_be_visible()
    whole = f"{len(hub.content) / 1e6:.1f}"
    expect(offer).to_contain_text(re.compile(rf"[1-9]\.\d MB of {whole} MB"))
    offer.get_by_test_id("cancel-offer").click()
    hub.flows.set()
    expect(offer).to_have_attribute("data-stage", "none")
    offer.get_by_test_id("get-offer").click()
    expect(offer).to_have_attribute("data-stage", "here")
    expect(page.get_by_test_id("model").and_(page.locator(f"[data-name='{NAME}']"))).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_test_id("model-picker").click()
    page.get_by_test_id("pick-model").filter(has_text=NAME).click()
    expect(page.get_by_test_id("model-now")).to_contain_text(f"{NAME} will be used")


def test_a_hub_that_is_away_is_said_at_the_model(page: Page, scripted: Scripted, hub: Hub) -> None:
    hub.status = 503
    signed_in(page, scripted.url)
    page.get_by_test_id("model-picker").click()
    page.get_by_test_id("more-models").click()
    offer = page.get_by_test_id("offers").locator("[data-name='Qwen3-0.6B']")
    offer.get_by_test_id("get-offer").click()
    expect(offer).to_contain_text("The hub does not provide Qwen3-0.6B right now (status 503).")
    expect(offer.get_by_test_id("get-offer")).to_be_visible()
