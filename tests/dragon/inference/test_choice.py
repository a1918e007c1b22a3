"""Which model a service runs: what both services take, and what they refuse by name.

Covers `dragon.models.__init__`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.settings import Settings
from dragon.errors import ConfigurationError
from dragon.inference.choice import DefaultSampling, ModelChoice
from dragon.models import EMBEDDED_ADAPTER, EMBEDDED_WRITER
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL
from peer.settings import PeerSettings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGON_PEER_CORPUS", "corpus")


@pytest.mark.parametrize("settings", [Settings, PeerSettings])
def test_a_server_needs_a_tokenizer(
    settings: type[Settings] | type[PeerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGON_MODEL", "http://127.0.0.1:8080")
    with pytest.raises(ConfigurationError) as caught:
        settings.read()
    assert caught.value.message == (
        "DRAGON_TOKENIZER: a model server brings no tokenizer: name that of its model, by a "
        "directory, a tokenizer.json, a hub name or a .gguf file"
    )
    monkeypatch.setenv("DRAGON_TOKENIZER", "model.gguf")
    monkeypatch.setenv("DRAGON_MODEL_KEY", "sesame")
    monkeypatch.setenv("DRAGON_MODEL_NAME", "one")
    read = settings.read()
    assert (read.model, read.tokenizer, read.model_name) == (
        "http://127.0.0.1:8080",
        "model.gguf",
        "one",
    )
    assert "sesame" not in repr(read)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL", "http://"),
        ("MODEL", "https://user:password@host"),
        ("MODEL", "http://host:http"),
        ("MODEL", "http://host/v1?key=1"),
        ("MODEL_KEY", "two words"),
        ("MODEL_KEY", "schlüssel"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("DRAGON_TOKENIZER", "model.gguf")
    monkeypatch.setenv(f"DRAGON_{name}", value)
    with pytest.raises(ConfigurationError, match=f"^DRAGON_{name}: ") as caught:
        Settings.read()
    if name == "MODEL_KEY":
        assert value not in caught.value.message


def test_the_tokenizer_may_be_named_for_any_model(embedded_gguf: Path) -> None:
    own, named = (
        ModelChoice(model=str(SMALL_MODEL), tokenizer=tokenizer).load_tokenizer()
        for tokenizer in (None, str(embedded_gguf))
    )
    assert own.fingerprint == named.fingerprint


def test_the_embedded_model_is_the_default() -> None:
    choice = ModelChoice(threads=1)
    tokenizer, model = choice.load()
    assert (choice.adapter, choice.answers) == (EMBEDDED_ADAPTER, "lines")
    assert model.name == EMBEDDED_WRITER.stem
    assert model.vocab_size == tokenizer.vocab_size
    assert len(model.weights.split("+")) == 2
    model.close()


def test_without_the_embedded_model_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "model.gguf"
    monkeypatch.setattr("dragon.inference.choice.EMBEDDED_WRITER", missing)
    with pytest.raises(ConfigurationError, match="`dragon models get` fetches it"):
        ModelChoice(model=str(missing)).load_tokenizer()


# What a model is sampled with where a request does not say.

QWEN = {
    "do_sample": True,
    "repetition_penalty": 1.1,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "eos_token_id": [151645, 151643],
}


def model(folder: Path, fields: object) -> str:
    (folder / "generation_config.json").write_text(json.dumps(fields))
    return str(folder)


def test_what_the_file_names_is_usual(tmp_path: Path) -> None:
    expected = DefaultSampling(0.7, top_p=0.8, top_k=20, repetition_penalty=1.1)
    assert DefaultSampling.of(model(tmp_path, QWEN)) == expected
    # Of a model server, whose tokenizer is named, as of the model itself.
    (tmp_path / "tokenizer.json").touch()
    server = ModelChoice(model="http://127.0.0.1:1", tokenizer=str(tmp_path / "tokenizer.json"))
    assert server.default_sampling(quotes=False) == expected


def test_a_model_that_names_nothing(tmp_path: Path) -> None:
    assert DefaultSampling.of(str(tmp_path)) == DefaultSampling()
    assert DefaultSampling.of(model(tmp_path, {"eos_token_id": 2})) == DefaultSampling()
    assert DefaultSampling.of(str(tmp_path / "model.gguf")) == DefaultSampling()


def test_a_model_that_does_not_sample_is_greedy(tmp_path: Path) -> None:
    assert DefaultSampling.of(model(tmp_path, {"do_sample": False, "top_k": 50})).temperature == 0.0
    assert ModelChoice(model=str(SMALL_MODEL)).default_sampling(quotes=True).temperature == 0.0
    assert ModelChoice(model="quoting.gguf").default_sampling(quotes=True).temperature == 0.0


def test_values_out_of_range_are_the_nearest_ones(tmp_path: Path) -> None:
    wild = {"temperature": 9.0, "top_p": 0, "top_k": -1, "min_p": 2, "repetition_penalty": 5}
    found = DefaultSampling.of(model(tmp_path, wild))
    Sampling(found.temperature or 0.0, found.top_p, min_p=found.min_p, top_k=found.top_k)
    assert (found.temperature, found.top_k, found.repetition_penalty) == (2.0, 0, 2.0)


@pytest.mark.parametrize("fields", [[], {"top_p": "much"}, {"top_k": {}}])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, fields: object) -> None:
    with pytest.raises(ConfigurationError, match=r"generation_config\.json cannot be read"):
        DefaultSampling.of(model(tmp_path, fields))
