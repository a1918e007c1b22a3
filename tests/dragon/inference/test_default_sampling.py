"""What a model is sampled with where a request does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragon.errors import ConfigurationError
from dragon.inference.choice import DefaultSampling, ModelChoice
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL

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
