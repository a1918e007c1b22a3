"""llama.cpp against torch: the embedded model as a `.gguf` file and from its directory.

Covers `dragon.inference.backends.llama_cpp.metadata` and `dragon.inference.backends.backend`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from gguf import GGUFWriter

from dragon.errors import ConfigurationError, InvalidRequestError, PreemptedError
from dragon.inference.backends.backend import WHOLE_ANSWERS, Backend, require_full
from dragon.inference.backends.llama_cpp import model as llama_cpp
from dragon.inference.backends.llama_cpp.model import LIKELIEST, LlamaCpp
from dragon.inference.choice import load_model
from dragon.inference.logprobs import MAX_TOP
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.models import EMBEDDED_MODEL
from tests import tiny
from tests.dragon.inference.backends.same_model import (
    TOLERANCE,
    check_random_texts,
    greedy,
)
from training import gguf_file

TEXT = "The lighthouse of Askham was built in 1848. Its keeper was Obadiah Thornley, who fed gulls."
QUESTION = [Message("user", "Who kept the lighthouse of Askham?")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(EMBEDDED_MODEL)


def loaded(path: Path, tokenizer: Tokenizer) -> Backend:
    return load_model(path, tokenizer.vocab_size, dtype="float32", device="cpu", threads=1)


@pytest.fixture(scope="module")
def llama(embedded_gguf: Path, tokenizer: Tokenizer) -> Iterator[LlamaCpp]:
    model = loaded(embedded_gguf, tokenizer)
    assert isinstance(model, LlamaCpp)
    yield model
    model.close()


@pytest.fixture(scope="module")
def reference(tokenizer: Tokenizer) -> Backend:
    return loaded(EMBEDDED_MODEL, tokenizer)


def test_it_is_the_same_model(llama: LlamaCpp, reference: Backend) -> None:
    for name in ("name", "vocab_size", "context", "quotes", "ends"):
        assert getattr(llama, name) == getattr(reference, name)


def test_random_appends_rollbacks_and_batches(
    llama: LlamaCpp, reference: Backend, tokenizer: Tokenizer
) -> None:
    words = tokenizer.document_row(TEXT) + tokenizer.conversation(QUESTION)
    check_random_texts(llama, reference, words * 9, LIKELIEST)


def test_a_row_that_begins_with_a_document(
    llama: LlamaCpp, reference: Backend, tokenizer: Tokenizer
) -> None:
    rows = tokenizer.document_row(TEXT), tokenizer.conversation(QUESTION)
    written = [tokenizer.decode(greedy(model, *rows)) for model in (llama, reference)]
    assert written[0] == written[1]
    assert written[0] in TEXT


def test_a_step_that_is_not_wanted_leaves_nothing_behind(llama: LlamaCpp) -> None:
    before = llama.forward([0], [0], torch.tensor([[5, 6, 7]]), 1)
    with pytest.raises(PreemptedError):
        llama.forward([0], [3], torch.tensor([[8]]), 1, cancelled=lambda: True)
    after = llama.forward([0], [2], torch.tensor([[7]]), 1)
    assert torch.allclose(after.exp(), before.exp(), atol=TOLERANCE)


def test_texts_that_have_ended_make_room(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay with llama.cpp until the positions that they take are needed."""
    monkeypatch.setattr(llama_cpp, "_LEAST_POSITIONS", 1024)
    path = tmp_path / "tiny.gguf"
    gguf_file.write(tiny.save(tmp_path / "tiny"), path)
    model = loaded(path, tokenizer)
    assert isinstance(model, LlamaCpp)
    fed = torch.arange(10, 410)[None]
    for slot in range(3):
        model.forward([slot], [0], fed, 1)
    assert [len(text) for text in model._texts[:3]] == [1, 400, 400]
    assert model.cache.acquire(1) == [0]
    model.forward([0], [0], fed, 1)
    assert [len(text) for text in model._texts[:3]] == [400, 1, 400]
    model.close()


def test_a_model_that_writes_names_what_holds_nearly_all(
    llama: LlamaCpp, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And 20 tokens at least, as many as `top_logprobs` may ask for."""
    fed = torch.tensor([tokenizer.encode(TEXT)])
    every = torch.softmax(llama.forward([0], [0], fed, 8), -1)[0]
    monkeypatch.setattr(llama, "_likeliest", llama_cpp._LIKELIEST | llama_cpp._NUCLEUS)
    named = torch.softmax(llama.forward([0], [0], fed, 8), -1)[0]
    counts = (named > 0).sum(-1)
    assert int(counts.min()) >= MAX_TOP
    assert int(counts.min()) < LIKELIEST
    assert float(torch.where(named > 0, every, 0.0).sum(-1).min()) > 0.998


def test_nobody_else_on_the_machine_can_ask_it(llama: LlamaCpp) -> None:
    with httpx.Client(base_url=llama._server.listening_address, timeout=60) as client:
        asked = client.post("/completion", json={"prompt": "a", "n_predict": 1})
        assert asked.status_code == 401
        assert client.get("/slots").status_code in (401, 501)


def test_slots_are_counted(llama: LlamaCpp) -> None:
    free = llama.cache.free
    slots = llama.cache.acquire(3)
    assert slots == [0, 1, 2]
    assert llama.cache.free == free - 3
    assert llama.cache.acquire(free) is None
    llama.cache.release(slots)
    assert llama.cache.free == free


def test_what_needs_every_probability_is_refused(llama: LlamaCpp, reference: Backend) -> None:
    require_full(reference, *WHOLE_ANSWERS)
    with pytest.raises(InvalidRequestError, match=r"sequencewise needs .* use aggregation oneway"):
        require_full(llama, *WHOLE_ANSWERS)


def test_its_tokenizer_is_the_same(
    embedded_gguf: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Tokenizer.load(embedded_gguf)
    assert own.fingerprint == tokenizer.fingerprint
    assert own.document_row(TEXT) == tokenizer.document_row(TEXT)
    assert own.conversation(QUESTION) == tokenizer.conversation(QUESTION)
    # As other people's files are: without its tokenizer.json.
    add = GGUFWriter.add_string

    def without(writer: GGUFWriter, key: str, value: str) -> None:
        if key != "tokenizer.huggingface.json":
            add(writer, key, value)

    monkeypatch.setattr(GGUFWriter, "add_string", without)
    bare = tmp_path / "bare.gguf"
    gguf_file.write(EMBEDDED_MODEL, bare)
    made = Tokenizer.load(bare)
    assert made.fingerprint == tokenizer.fingerprint
    assert made.decode(made.encode(TEXT)) == TEXT
    assert made.conversation(QUESTION)[-1] == tokenizer.conversation(QUESTION)[-1]


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model", b"GGUF" + bytes(100)])
def test_what_is_no_gguf_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"model\.gguf is "):
        Tokenizer.load(path)
    with pytest.raises(ConfigurationError, match=r"model\.gguf is "):
        LlamaCpp(path, 10, threads=1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.gguf"):
        Tokenizer.load(tmp_path / "nothing.gguf")


def test_half_a_file_is_refused(embedded_gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(embedded_gguf.read_bytes()[:-5_000_000])
    with pytest.raises(ConfigurationError, match=r"half\.gguf"):
        LlamaCpp(path, 10, threads=1)
