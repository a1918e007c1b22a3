"""Trying a model in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from app.models import trial
from app.models.model import Kind, Model
from app.models.trial import Trials
from dragon.errors import InvalidRequestError, OverloadedError
from dragon.inference.tokenizer import Tokenizer
from dragon.localizable import Localizable
from dragon.models import EMBEDDED_MODEL


def named(path: Path) -> Model:
    return Model(path.name, Kind.FILE, "here", str(path))


async def _forever() -> None:
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_URL", "ws://127.0.0.1:9/v1/link")


async def test_it_says_what_the_model_does(embedded_gguf: Path) -> None:
    report = await Trials().run(named(embedded_gguf), _forever)
    assert report is not None
    assert report.answer
    assert report.tokens_per_s > 0
    assert report.memory is not None
    assert report.memory > embedded_gguf.stat().st_size
    assert report.fingerprint == Tokenizer.load(EMBEDDED_MODEL).fingerprint
    assert report.fits is None
    assert "No peer answers at ws://127.0.0.1:9" in report.peer


async def test_a_model_that_does_not_load_gives_its_reason(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"nothing")
    with pytest.raises(InvalidRequestError, match=r"a\.gguf is not a \.gguf file"):
        await Trials().run(named(tmp_path / "a.gguf"), _forever)


async def test_one_at_a_time_and_it_ends_with_whoever_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "COMMAND", ("sleep", "600"))
    trials, left = Trials(), asyncio.Event()

    async def gone() -> None:
        await left.wait()

    first = asyncio.create_task(trials.run(named(Path("a")), gone))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="Another model"):
        await trials.run(named(Path("b")), _forever)
    left.set()
    assert await first is None
    monkeypatch.setattr(
        trial, "COMMAND", ("echo", json.dumps({"error": Localizable("No.").as_json()}))
    )
    with pytest.raises(InvalidRequestError, match="No"):
        await trials.run(named(Path("b")), _forever)


def test_a_process_that_was_killed_points_at_memory() -> None:
    with pytest.raises(InvalidRequestError, match=r"signal 9.*want of memory"):
        trial.result(b"", -9)
    with pytest.raises(InvalidRequestError, match="log of DRAGON"):
        trial.result(b"", 1)


def test_what_a_runtime_prints_before_is_no_matter() -> None:
    said = json.dumps({"error": Localizable("No tokenizer.").as_json()})
    with pytest.raises(InvalidRequestError, match="No tokenizer"):
        trial.result(f"loading\n{said}{os.linesep}".encode(), 0)
