"""Models in the hub's cache: which of them PyTorch would run here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import BertConfig, Gemma2Config

from app.models.model import Model, cached
from dragon.inference.backends.torch.model import LanguageModel
from tests import tiny


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def snapshot(cache: Path, name: str) -> Path:
    """Where the cache keeps a repository of this name."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("1a2b")
    folder = repository / "snapshots/1a2b"
    folder.mkdir(parents=True)
    return folder


def only(dtype: str = "float32") -> Model:
    (model,) = cached(dtype)
    return model


def test_a_language_model_goes_by_its_hub_name(cache: Path) -> None:
    folder = tiny.save(snapshot(cache, "someone/tiny"))
    model = only()
    assert (model.name, model.setting) == ("someone/tiny", "someone/tiny")
    assert model.is_set_by("someone/tiny")
    assert model.is_set_by(str(folder))
    assert not model.refusal


def test_memory_is_that_of_the_weights_as_loaded_and_of_a_context(cache: Path) -> None:
    folder = tiny.save(snapshot(cache, "someone/tiny"))
    loaded = LanguageModel.load(folder, tiny.VOCABULARY)
    weights = (folder / "model.safetensors").stat().st_size
    assert loaded.kv is not None
    assert only().memory == weights + tiny.CONTEXT * loaded.kv.kv_bytes(1)
    assert only("bfloat16").memory == (weights + tiny.CONTEXT * loaded.kv.kv_bytes(1)) // 2


def test_a_gguf_in_the_cache_is_a_file(cache: Path, embedded_gguf: Path) -> None:
    path = snapshot(cache, "someone/tiny-GGUF") / "tiny.gguf"
    path.symlink_to(embedded_gguf)
    assert (only().name, only().setting) == ("tiny", str(path))


def test_what_does_not_serve_says_why(cache: Path) -> None:
    def refusal(name: str, config: BertConfig | Gemma2Config, *extra: str) -> str:
        folder = snapshot(cache, name)
        config.save_pretrained(folder)
        for file in ("model.safetensors", *extra):
            (folder / file).write_bytes(b"")
        return next(model.refusal for model in cached("float32") if model.name == name)

    bert = refusal("someone/bert", BertConfig(architectures=["BertModel"]))
    assert "does not write text (BertModel)" in bert
    gemma = Gemma2Config(architectures=["Gemma2ForCausalLM"])
    assert "no tokenizer.json" in refusal("someone/gemma", gemma)
    assert "sliding attention" in refusal("someone/whole", gemma, "tokenizer.json")


def test_a_download_that_was_broken_off_says_so(cache: Path) -> None:
    folder = snapshot(cache, "someone/part")
    tiny.config("llama").save_pretrained(folder)
    assert "weights have not been downloaded" in only().refusal
    (folder / "config.json").write_text(json.dumps({"model_type": "of nobody"}))
    assert "configuration cannot be read" in only().refusal
