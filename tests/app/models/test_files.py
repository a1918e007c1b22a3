"""`.gguf` files where Ollama, LM Studio and people keep them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.models.model import ModelKind, gguf, in_usual_folders, lm_studio, ollama
from dragon.inference.backends.llama_cpp.gguf import GgufHeader


def put(source: Path, *targets: Path) -> None:
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def ollamas(home: Path, blob: Path, model: str = "library/qwen2.5/0.5b") -> Path:
    """A folder as Ollama keeps one."""
    folder = home / ".ollama/models"
    put(blob, folder / "blobs/sha256-feed")
    manifest = folder / "manifests/registry.ollama.ai" / model
    manifest.parent.mkdir(parents=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:other"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:feed"},
    ]
    manifest.write_text(json.dumps({"layers": layers}))
    return folder


def test_a_blob_of_ollamas_is_a_model_under_ollamas_name(
    tmp_path: Path, embedded_gguf: Path
) -> None:
    ollamas(tmp_path, embedded_gguf)
    (model,) = ollama(tmp_path, tmp_path / "data")
    assert (model.name, model.kind, model.where) == ("qwen2.5:0.5b", ModelKind.FILE, "Ollama")
    assert model.file == tmp_path / ".ollama/models/blobs/sha256-feed"
    assert model.setting == str(tmp_path / "data/models/qwen2.5-0.5b.gguf")
    assert not model.refusal


def test_ollamas_folder_can_be_elsewhere_and_a_damaged_manifest_is_none(
    tmp_path: Path, embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ollamas(tmp_path / "elsewhere", embedded_gguf, "someone/tiny/latest")
    (folder / "manifests/registry.ollama.ai/someone/tiny/broken").write_text("{")
    assert list(ollama(tmp_path, tmp_path)) == []
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    (model,) = ollama(tmp_path, tmp_path)
    assert model.name == "registry.ollama.ai/someone/tiny:latest"


def test_lm_studios_folders_old_and_new(tmp_path: Path, embedded_gguf: Path) -> None:
    new, old = tmp_path / ".lmstudio/models", tmp_path / ".cache/lm-studio/models"
    put(embedded_gguf, new / "publisher/repository/a.gguf", old / "publisher/repository/b.gguf")
    assert [model.name for model in lm_studio(tmp_path)] == ["a", "b"]


def test_the_data_directory_and_downloads(tmp_path: Path, embedded_gguf: Path) -> None:
    put(embedded_gguf, tmp_path / "data/a.gguf", tmp_path / "Downloads/b.gguf")
    found = list(in_usual_folders(tmp_path, tmp_path / "data"))
    assert [model.name for model in found] == ["a", "b"]
    assert found[0].where == "data directory"


def test_memory_is_that_of_weights_and_of_a_whole_context(embedded_gguf: Path) -> None:
    model, header = gguf(embedded_gguf, "here"), GgufHeader.read(embedded_gguf)
    assert model.size == embedded_gguf.stat().st_size
    assert model.memory == model.size + header.context * header.kv_bytes


def test_a_model_in_parts_is_one_and_a_missing_part_is_named(
    tmp_path: Path, embedded_gguf: Path
) -> None:
    folder = tmp_path / "models"
    first, second = (folder / f"big-{part:05}-of-00002.gguf" for part in (1, 2))
    put(embedded_gguf, first, second)
    (whole,) = in_usual_folders(tmp_path, tmp_path / "data")
    assert (whole.name, whole.size) == ("big", 2 * embedded_gguf.stat().st_size)
    second.unlink()
    (model,) = in_usual_folders(tmp_path, tmp_path / "data")
    assert "big-00002-of-00002.gguf is missing" in model.refusal


def test_what_is_damaged_is_listed_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"nothing")
    assert "damaged.gguf is damaged" in gguf(path, "here").refusal
