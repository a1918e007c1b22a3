"""Trying a model in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.api.page.languages import LANGUAGES, texts
from app.models import trial
from app.models.model import Model, ModelKind
from app.models.trial import Task, Trials
from app.settings import Settings
from dragon.errors import ConfigurationError, InvalidRequestError, OverloadedError
from dragon.inference.tokenizer import Tokenizer
from dragon.localizable import Localizable
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL
from tests import tiny
from tests.samples import embedder, judge


def named(path: Path) -> Model:
    return Model(path.name, ModelKind.FILE, "here", str(path))


ENGLISH = Task.of(texts("en"))


async def _forever() -> None:
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_PEER_URL", "ws://127.0.0.1:9/v1/link")
    # Loaded once: every trial in this process compares them with the peer's.
    for kind, loaded in ((Embedder, embedder()), (Judge, judge())):
        monkeypatch.setattr(kind, "load", lambda path, loaded=loaded: loaded)


async def test_it_says_what_the_model_does(embedded_gguf: Path) -> None:
    report = await Trials().run(named(embedded_gguf), ENGLISH, _forever)
    assert report is not None
    assert report.tokens_per_s > 0
    assert report.words_per_s > 0
    assert report.memory is not None
    assert 2 * embedded_gguf.stat().st_size < report.memory < report.installed
    assert report.fingerprint == Tokenizer.load(SMALL_MODEL).fingerprint
    assert report.fits is None
    assert "No peer answers at ws://127.0.0.1:9" in report.peer


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_that_quotes_is_given_a_text_to_quote_from(language: str) -> None:
    task = Task.of(texts(language))
    report = trial._tried(Settings(_env_file=None, model=str(SMALL_MODEL)), task)
    assert (report.question, report.text) == (task.about, task.text)
    assert report.answer == task.answer
    assert report.works


def test_a_model_that_writes_is_asked_what_anybody_knows(tmp_path: Path) -> None:
    report = trial._tried(Settings(_env_file=None, model=str(tiny.save(tmp_path))), ENGLISH)
    assert (report.question, report.text) == (ENGLISH.question, "")
    assert report.works == bool(report.answer)


async def test_a_server_is_sent_its_own_key_and_no_other(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one of the model in use, which a file has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/model.env").write_text("DRAGON_MODEL_KEY=sesame\n")
    with serving(served, Behaviour(key="sesame")) as url:
        model = Model("a", ModelKind.SERVER, "here", url, tokenizer=str(SMALL_MODEL))
        with pytest.raises(InvalidRequestError, match="wants a key"):
            await Trials().run(model, ENGLISH, _forever)
        report = await Trials().run(replace(model, key=SecretStr("sesame")), ENGLISH, _forever)
    assert report is not None
    assert (report.memory, report.question) == (None, ENGLISH.question)


def test_a_model_that_does_not_load_gives_its_reason(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"nothing")
    settings = Settings(_env_file=None, model=str(tmp_path / "a.gguf"))
    with pytest.raises(ConfigurationError, match=r"a\.gguf is not a \.gguf file"):
        trial._tried(settings, ENGLISH)


async def test_one_at_a_time_and_it_ends_with_whoever_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "COMMAND", ("sleep", "600"))
    trials, left = Trials(), asyncio.Event()

    async def gone() -> None:
        await left.wait()

    first = asyncio.create_task(trials.run(named(Path("a")), ENGLISH, gone))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="Another model"):
        await trials.run(named(Path("b")), ENGLISH, _forever)
    left.set()
    assert await first is None
    monkeypatch.setattr(
        trial, "COMMAND", ("echo", json.dumps({"error": Localizable("No.").as_json()}))
    )
    with pytest.raises(InvalidRequestError, match="No"):
        await trials.run(named(Path("b")), ENGLISH, _forever)


REFUSED = json.dumps({"error": Localizable("No tokenizer.").as_json()})


@pytest.mark.parametrize(
    ("output", "status", "why"),
    [
        ("", -9, r"signal 9.*want of memory"),
        ("", 1, "log of DRAGON"),
        (f"what a runtime prints before\n{REFUSED}{os.linesep}", 0, "No tokenizer"),
    ],
)
def test_a_process_without_a_report_says_why(output: str, status: int, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        trial.result(output.encode(), status)
