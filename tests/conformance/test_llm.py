"""The `llm` program, told of the device by its extra-openai-models.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service


@pytest.fixture(scope="module")
def home(device: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("llm")
    common = {"model_name": MODEL, "api_base": device.api, "api_key_name": "dragon"}
    models = [
        {"model_id": "dragon", **common},
        {"model_id": "dragon-completion", "completion": True, **common},
    ]
    (home / "extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    (home / "keys.json").write_text(json.dumps({"dragon": device.key}))
    return home


def llm(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "llm", *words],
        env={**os.environ, "LLM_USER_PATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("option", [(), ("--no-stream",)])
def test_chat(home: Path, option: tuple[str, ...]) -> None:
    answer = llm(
        home, "-m", "dragon", "-o", "temperature", "0", "-o", "seed", "7", *option, QUESTION
    )
    assert ANSWER in answer


def test_a_conversation_goes_on(home: Path) -> None:
    llm(home, "-m", "dragon", "-s", "Be brief.", "-o", "max_tokens", "8", "Hello")
    assert ANSWER in llm(home, "-c", "-o", "temperature", "0", QUESTION)


@pytest.mark.parametrize("option", [(), ("--no-stream",)])
def test_completions(home: Path, option: tuple[str, ...]) -> None:
    words = ("-m", "dragon-completion", "-o", "max_tokens", "8", *option)
    assert llm(home, *words, "The capital of France is").strip()


def test_embeddings(device: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from llm.default_plugins.openai_models import OpenAIEmbeddingModel

    # Its YAML knows no embedding models; a plugin registers this class for them.
    monkeypatch.setenv("OPENAI_BASE_URL", device.api)
    model = OpenAIEmbeddingModel("dragon-embedder", EMBEDDER)
    model.key = device.key
    first, second = model.embed_multi(["One", "Two"])
    assert len(first) == len(second) == 384
