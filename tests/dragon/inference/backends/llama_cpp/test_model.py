"""llama.cpp against torch: the embedded model as a `.gguf` file and from its directory.

Covers `dragon.inference.backends.llama_cpp.gguf`,
`dragon.inference.backends.llama_cpp.context` and `dragon.inference.backends.backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from gguf import GGUFWriter

from dragon.errors import ConfigurationError, PreemptedError
from dragon.inference.backends.backend import Backend, never
from dragon.inference.backends.llama_cpp import model as llama_cpp
from dragon.inference.backends.llama_cpp.context import Logits, SequencePiece
from dragon.inference.backends.llama_cpp.model import LlamaCpp
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.choice import ModelChoice
from dragon.inference.tokenizer import Message, Tokenizer
from harness import gguf_file
from harness.models import SMALL_MODEL
from harness.two_sided import QUESTIONS, read
from tests.dragon.inference.backends.llama_cpp.conftest import ONE_FORMAT, Load
from tests.dragon.inference.backends.same_model import check_random_texts, greedy

TEXT = "The lighthouse of Askham was built in 1848. Its keeper was Obadiah Thornley, who fed gulls."
QUESTION = [Message("user", "Who kept the lighthouse of Askham?")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.fixture(scope="module")
def llama(embedded_gguf: Path, tokenizer: Tokenizer) -> Iterator[LlamaCpp]:
    model = LlamaCpp(embedded_gguf, tokenizer.vocab_size, threads=1)
    yield model
    model.close()


@pytest.fixture(scope="module")
def reference(tokenizer: Tokenizer) -> Backend:
    return LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)


def test_it_is_the_same_model(llama: LlamaCpp, reference: Backend) -> None:
    for name in ("name", "vocab_size", "context", "quotes", "ends"):
        assert getattr(llama, name) == getattr(reference, name)


def test_random_appends_rollbacks_and_batches(
    llama: LlamaCpp, reference: Backend, tokenizer: Tokenizer
) -> None:
    words = tokenizer.document_row(TEXT) + tokenizer.conversation(QUESTION)
    check_random_texts(llama, reference, words * 9)


def test_greedy_texts_and_log_probabilities_are_those_of_torch(
    llama: LlamaCpp, tokenizer: Tokenizer
) -> None:
    """Of the same weights; llama.cpp rounds what it multiplies them with to half precision, too."""
    reference = LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)
    reference._network.half().float()
    off = []
    for question in read(QUESTIONS)[:20]:
        prompt = tokenizer.document_row(question.note or TEXT)
        prompt += tokenizer.conversation([Message("user", question.text)])
        text = greedy(llama, prompt[:-1], prompt[-1:])
        fed = torch.tensor([[*prompt, *text[:-1]]])
        found, wanted = (
            torch.log_softmax(model.forward([8], [0], fed, len(text))[0], -1)
            for model in (llama, reference)
        )
        assert torch.allclose(found.double().exp().sum(-1), torch.tensor(1.0).double())
        top = wanted.topk(5, -1)
        sure = top.values[:, 0] - top.values[:, 1] > 0.1
        assert torch.equal(found.argmax(-1)[sure], wanted.argmax(-1)[sure])
        off.append((found.gather(1, top.indices) - top.values).abs().flatten())
    assert float(torch.cat(off).quantile(0.98)) < 0.02


def test_a_step_that_is_not_wanted_leaves_nothing_behind(llama: LlamaCpp) -> None:
    before = llama.forward([0], [0], torch.tensor([[5, 6, 7]]), 1)
    with pytest.raises(PreemptedError):
        llama.forward([0], [3], torch.tensor([[8]]), 1, cancelled=lambda: True)
    after = llama.forward([0], [2], torch.tensor([[7]]), 1)
    assert torch.allclose(after, before, atol=0.1)


@ONE_FORMAT
def test_texts_that_have_ended_make_room_and_then_the_cache_grows(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "_AT_FIRST", 1024)
    model = load()
    fed = [torch.arange(10 * n, 10 * n + 400)[None] for n in range(1, 4)]
    for slot in range(2):
        assert model.cache.acquire(1, 400) == [slot]
        model.forward([slot], [0], fed[slot], 1)
    model.cache.release([0])
    assert model.cache.acquire(1, 400) == [0]
    first = model.forward([0], [0], fed[2], 1)
    assert model._context.positions == 1024
    assert model.cache.acquire(1, 400) == [2]
    second = model.forward([2], [0], fed[0], 1)
    assert model._context.positions == 2048
    # What was there before is there after.
    assert torch.allclose(model.forward([0], [399], fed[2][:, -1:], 1), first, atol=0.1)
    assert torch.allclose(model.forward([2], [399], fed[0][:, -1:], 1), second, atol=0.1)


def test_what_is_in_the_cache_is_not_computed_again(llama: LlamaCpp, tokenizer: Tokenizer) -> None:
    """And what is computed, by rows that are still in use or not, is what a fresh row has."""
    fed = torch.tensor([tokenizer.encode(TEXT * 3)])
    computed: list[int] = []
    decode = llama._context.decode

    def counted(pieces: Sequence[SequencePiece], cancelled: Callable[[], bool] = never) -> Logits:
        computed.append(sum(len(piece.tokens) for piece in pieces))
        return decode(pieces, cancelled)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(llama._context, "decode", counted)
        slots = llama.cache.acquire(2, fed.shape[1] + 1) or []
        llama.begin(slots, adapted=True)
        fresh = llama.forward(slots[:1], [0], fed, 1)
        again = llama.forward(slots[1:], [0], fed, 1)
        llama.cache.release(slots)
        slots = llama.cache.acquire(1, fed.shape[1] + 1) or []
        llama.begin(slots, adapted=True)
        later = llama.forward(slots, [0], fed, 1)
        llama.cache.release(slots)
    assert computed == [fed.shape[1], 1, 1]
    assert torch.allclose(fresh, again, atol=0.1)
    assert torch.equal(again, later)


@ONE_FORMAT
def test_an_adapter_can_be_had_and_left_out(load: Load, tiny_gguf: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.gguf"
    gguf_file.write_adapter(tiny_gguf.parent / "tiny", adapter)
    plain, model = load(), load(adapter=adapter)
    fed = torch.arange(10, 50)[None].expand(2, -1)
    slots = model.cache.acquire(2, 64) or []
    model.begin(slots[:1], adapted=False)
    model.begin(slots[1:], adapted=True)
    without, adapted = model.forward(slots, [0, 0], fed, 1)
    assert torch.allclose(without, plain.forward([0], [0], fed[:1], 1)[0], atol=0.1)
    assert float((without - adapted).abs().max()) > 1.0
    # Each goes on with its own keys and values.
    both = model.forward(slots, [40, 40], torch.tensor([[60], [60]]), 1)
    alone = plain.forward([0], [40], torch.tensor([[60]]), 1)
    assert torch.allclose(both[0], alone[0], atol=0.1)
    assert float((both[1] - alone[0]).abs().max()) > 1.0
    assert model.weights != plain.weights


def test_what_is_no_adapter_is_refused(embedded_gguf: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigurationError, match="cannot load"):
        LlamaCpp(embedded_gguf, tokenizer.vocab_size, threads=1, adapter=embedded_gguf)
    with pytest.raises(ValueError, match=r"an adapter needs a model in a \.gguf file"):
        ModelChoice(model="folder", adapter=embedded_gguf)


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
    gguf_file.write(SMALL_MODEL, bare)
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


def test_half_a_file_and_none_are_refused(embedded_gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    with pytest.raises(ConfigurationError, match=r"half\.gguf"):
        Tokenizer.load(path)
    path.write_bytes(embedded_gguf.read_bytes()[:-5_000_000])
    with pytest.raises(ConfigurationError, match=r"half\.gguf"):
        LlamaCpp(path, 10, threads=1)
