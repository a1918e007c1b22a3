"""`/api/models` as the page calls it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.container import AppState
from app.main import create_app
from app.models import trial
from app.models.catalogue import OFFERS
from app.models.model import Model
from app.models.trial import Report
from dragon.errors import InvalidRequestError
from dragon.localizable import Localizable
from dragon.models import EMBEDDED_WRITER
from harness.faults import hub
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL
from tests.app.conftest import in_process

REPORT = Report(
    model="a", question="A question?", text="", answer="An answer.", works=True,
    tokens_per_s=12.5, words_per_s=9.5, memory=1_000, installed=2_000, context=2048,
    fingerprint="feed", fits=True, peer=Localizable("The peer fits."),
)  # fmt: skip


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one model in the data directory, and one that is damaged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.delenv("DRAGON_MODEL", raising=False)
    monkeypatch.setattr("app.models.found.PORTS", {9: "nothing"})
    (tmp_path / "real.gguf").symlink_to(embedded_gguf)
    (tmp_path / "damaged.gguf").write_bytes(b"nothing")


async def test_it_lists_what_there_is(client: httpx.AsyncClient) -> None:
    listing = (await client.get("/api/models")).json()
    assert (listing["current"], listing["next"]) == (SMALL_MODEL.name, EMBEDDED_WRITER.stem)
    models = {model["name"]: model for model in listing["data"]}
    assert set(models) == {EMBEDDED_WRITER.stem, SMALL_MODEL.name, "real", "damaged"}
    assert models["real"]["memory"] > models["real"]["size"] > 0
    assert not models["real"]["refusal"]
    assert "damaged.gguf is damaged" in models["damaged"]["refusal"]


async def test_a_chosen_model_is_that_of_the_next_start(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    chosen = (await client.post("/api/models/use", json={"name": "real"})).json()
    assert chosen["next"] == "real"
    assert "Restart" in chosen["says"]
    assert f"DRAGON_MODEL='{tmp_path / 'real.gguf'}'" in (tmp_path / "model.env").read_text()
    listing = (await client.get("/api/models")).json()
    assert (listing["current"], listing["next"]) == ("dragon-7m", "real")


async def test_where_something_can_load_it_beside_a_chosen_model_is_loaded_at_once(
    client: httpx.AsyncClient, state: AppState
) -> None:
    class Started:
        loading = False

        def turn(self) -> None:
            raise AssertionError("it serves already")

        def switch(self) -> None:
            self.loading = True

    assert (await client.get("/api/models")).json()["loading"] is False
    app = create_app(state.settings, replace(state, succession=Started()))
    async with in_process(app) as started_by_up:
        chosen = await started_by_up.post("/api/models/use", json={"name": "real"})
        assert chosen.json() == {"next": "real", "says": ""}
        assert (await started_by_up.get("/api/models")).json()["loading"] is True


@pytest.mark.parametrize("action", ["use", "try"])
async def test_only_what_is_listed_and_serves_can_be_taken(
    client: httpx.AsyncClient, action: str, tmp_path: Path
) -> None:
    for name, status in (("damaged", 400), ("nothing", 404), (str(tmp_path / "real.gguf"), 404)):
        refused = await client.post(f"/api/models/{action}", json={"name": name})
        assert refused.status_code == status
        assert refused.json()["error"]["message"]
    assert not (tmp_path / "model.env").exists()


async def test_a_trial_reports_or_gives_its_reason(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def run(
        self: trial.Trials, model: Model, task: trial.Task, gone: Callable[[], Any]
    ) -> Report:
        tried.append(model.setting)
        assert task.about == "Wann fährt die Fähre zur Insel ab?"
        if len(tried) > 1:
            raise InvalidRequestError("It does not load.")
        return REPORT

    monkeypatch.setattr(trial.Trials, "run", run)
    client.headers["accept-language"] = "de-AT,en;q=0.5"
    report = await client.post("/api/models/try", json={"name": "real"})
    assert report.json()["answer"] == "An answer."
    assert tried == [str(tmp_path / "real.gguf")]
    refused = await client.post("/api/models/try", json={"name": "real"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "It does not load."


async def test_a_server_is_given_the_key_that_it_asks_for(
    client: httpx.AsyncClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    served: Served,
) -> None:
    """A wrong one is refused; the right one is told nobody, and kept with the model chosen."""
    caplog.set_level(logging.DEBUG)
    with serving(served, Behaviour(key="sesame", root=str(SMALL_MODEL))) as url:
        monkeypatch.setattr("app.models.found.PORTS", {int(url.rpartition(":")[2]): "vLLM"})
        told = []

        async def given(**body: str) -> httpx.Response:
            reply = await client.post("/api/models/key", json=body)
            told.append(reply.text)
            return reply

        async def listed() -> dict[str, Any]:
            listing = await client.get("/api/models")
            told.append(listing.text)
            return next(each for each in listing.json()["data"] if each["setting"] == url)

        assert (await listed())["wants_key"]
        for key in ("open-up", "two words", "schlüssel"):
            refused = await given(name=url, key=key)
            assert refused.status_code == 400
            assert key not in refused.text
        assert (await given(name="real", key="sesame")).status_code == 400
        assert (await listed())["wants_key"]
        assert (await given(name=url, key="sesame")).status_code == 204
        model = await listed()
        assert (model["refusal"], model["wants_key"]) == ("", False)
        chosen = await client.post("/api/models/use", json={"name": url})
        told.append(chosen.text)
    kept = tmp_path / "model.env"
    assert "DRAGON_MODEL_KEY='sesame'" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "sesame" not in "".join([*told, caplog.text])


async def test_one_is_fetched_and_stands_as_here(
    client: httpx.AsyncClient, embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def offer() -> dict[str, object]:
        listed = (await client.get("/api/models/offers")).json()["data"]
        assert [each["name"] for each in listed] == [each.name for each in OFFERS]
        first: dict[str, object] = listed[0]
        return first

    with hub.serving(hub.Hub(embedded_gguf.read_bytes())) as there:
        monkeypatch.setenv("HF_ENDPOINT", there.url)
        before = await offer()
        assert (before["stage"], before["fits"], before["licence"]) == ("none", True, "Apache-2.0")
        begun = await client.post("/api/models/get", json={"name": before["name"]})
        assert begun.status_code == 202
        while (now := await offer())["stage"] == "coming":
            pass
    assert now["stage"] == "here"
    assert now["there"] == now["size"]


async def test_one_that_is_not_offered_is_unknown(client: httpx.AsyncClient) -> None:
    for path in ("/api/models/get", "/api/models/get/cancel"):
        refused = await client.post(path, json={"name": "nothing"})
        assert refused.status_code == 404
        assert "'nothing'" in refused.json()["error"]["message"]
