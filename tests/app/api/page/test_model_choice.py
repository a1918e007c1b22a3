"""`/api/models` as the page calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.models import servers, trial
from app.models.model import Model
from app.models.trial import Report
from dragon.errors import InvalidRequestError

REPORT = Report("a", "A question?", "An answer.", 12.5, 1_000, 2048, "feed", True, "The peer fits.")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one model in the data directory, and one that is damaged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.delenv("DRAGON_MODEL", raising=False)
    monkeypatch.setattr(servers, "PORTS", {9: "nothing"})
    (tmp_path / "real.gguf").symlink_to(embedded_gguf)
    (tmp_path / "damaged.gguf").write_bytes(b"nothing")


async def test_it_lists_what_there_is(client: httpx.AsyncClient) -> None:
    listing = (await client.get("/api/models")).json()
    assert listing["current"] == listing["next"] == "dragon-7m"
    models = {model["name"]: model for model in listing["data"]}
    assert set(models) == {"dragon-7m", "real", "damaged"}
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

    async def run(self: trial.Trials, model: Model, gone: Callable[[], Any]) -> Report:
        tried.append(model.setting)
        if len(tried) > 1:
            raise InvalidRequestError("It does not load.")
        return REPORT

    monkeypatch.setattr(trial.Trials, "run", run)
    report = await client.post("/api/models/try", json={"name": "real"})
    assert report.json()["answer"] == "An answer."
    assert tried == [str(tmp_path / "real.gguf")]
    refused = await client.post("/api/models/try", json={"name": "real"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "It does not load."


async def test_it_is_closed_without_the_key(client: httpx.AsyncClient) -> None:
    del client.headers["authorization"]
    assert (await client.get("/api/models")).status_code == 401
