"""Document KV on disk: bit for bit what is computed afresh, and gone with its document."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragon.inference.backends.torch.cache import TensorKV
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder
from dragon.inference.kv_store import KVStore
from dragon.inference.rows import Row
from tests import tiny

ROOMY = 1 << 24
ROWS = [Row(tuple(range(40, 61)), 1.0, "a"), Row(tuple(range(70, 77)), 0.0, "b")]
CONVERSATION = (20, 21, 22)


@pytest.fixture(scope="module", params=tiny.ARCHITECTURES)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp(request.param), request.param)


def logits(model: LanguageModel, rows: list[Row], store: KVStore | None) -> torch.Tensor:
    """Of one token after the conversation, in every row."""
    decoder = Decoder(model, rows, CONVERSATION, store=store)
    assert decoder.acquire()
    decoder.prefill()
    result = model.forward(decoder.slots, decoder.bases, torch.tensor([[30]] * len(rows)), 1)
    decoder.release()
    return result


def computed(model: LanguageModel, row: Row) -> TensorKV:
    """A row's keys and values, afresh."""
    (slot,) = model.cache.acquire(1, len(row.tokens)) or []
    model.forward([slot], [0], torch.tensor([row.tokens]), 0)
    kv = model.read(slot, len(row.tokens))
    model.cache.release([slot])
    return kv


def documents_run(model: LanguageModel) -> Callable[[], int]:
    """Counts the forwards of whole documents from now on."""
    lengths: list[int] = []
    model.layers[0].register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    return lambda: sum(length > len(CONVERSATION) for length in lengths)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_loaded_equals_computed_bit_for_bit(path: Path, tmp_path: Path, dtype: str) -> None:
    model = LanguageModel.load(path, tiny.VOCABULARY, dtype=dtype)
    store = KVStore(tmp_path, model, ROOMY)
    slow = logits(model, ROWS, None)
    assert torch.equal(logits(model, ROWS, store), slow)
    # Another process, where no slot has been used yet.
    model = LanguageModel.load(path, tiny.VOCABULARY, dtype=dtype)
    ran = documents_run(model)
    assert torch.equal(logits(model, ROWS, KVStore(tmp_path, model, ROOMY)), slow)
    assert ran() == 0


def test_bfloat16_is_stored_as_such(tmp_path: Path) -> None:
    path, sizes = tiny.save(tmp_path / "model"), {}
    for dtype in ("float32", "bfloat16"):
        model = LanguageModel.load(path, tiny.VOCABULARY, dtype=dtype)
        store = KVStore(tmp_path / dtype, model, ROOMY)
        kv = computed(model, ROWS[0])
        store.save(ROWS[0], kv)
        loaded = store.load(ROWS[0])
        assert loaded.keys.dtype == kv.keys.dtype == getattr(torch, dtype)
        (file,) = (tmp_path / dtype).iterdir()
        sizes[dtype] = file.stat().st_size
    tokens = len(ROWS[0].tokens)
    header = 8  # it is padded
    assert abs(sizes["float32"] - sizes["bfloat16"] - model.kv_bytes(tokens)) <= header


def test_packed_by_another_side_equals_computed_there(path: Path) -> None:
    model = LanguageModel.load(path, tiny.VOCABULARY, dtype="bfloat16")
    packed = [computed(model, row).pack() for row in ROWS]
    assert [len(kv) for kv in packed] == [model.packed_bytes(len(row.tokens)) for row in ROWS]
    given = [Row(row.tokens, row.relevance, kv=kv) for row, kv in zip(ROWS, packed, strict=True)]
    other = LanguageModel.load(path, tiny.VOCABULARY, dtype="bfloat16")
    ran = documents_run(other)
    assert torch.equal(logits(other, given, None), logits(model, ROWS, None))
    assert ran() == 0


def test_a_bare_row_is_not_kept(model: LanguageModel, tmp_path: Path) -> None:
    logits(model, [Row((5, 6), 0.0)], KVStore(tmp_path, model, ROOMY))
    assert list(tmp_path.iterdir()) == []


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def overwrite(path: Path) -> None:
    path.write_bytes(b"nothing of ours")


@pytest.mark.parametrize("damage", [Path.unlink, truncate, flip_a_bit, overwrite])
def test_a_damaged_file_is_computed_again_and_replaced(
    model: LanguageModel, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = KVStore(tmp_path, model, ROOMY)
    expected = logits(model, ROWS[:1], store)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    damage(file)
    assert torch.equal(logits(model, ROWS[:1], store), expected)
    assert file.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_file_under_anothers_name_is_a_miss(model: LanguageModel, tmp_path: Path) -> None:
    store = KVStore(tmp_path, model, ROOMY)
    same_length = Row(tuple(range(100, 121)), 0.0, "a")
    for row in (ROWS[0], same_length):
        store.save(row, computed(model, row))
    one, other = tmp_path.iterdir()
    other.write_bytes(one.read_bytes())
    assert [store.load(row) is None for row in (ROWS[0], same_length)].count(True) == 1


def test_other_weights_or_tokens_or_document_are_a_miss(
    model: LanguageModel, tmp_path: Path
) -> None:
    store = KVStore(tmp_path, model, ROOMY)
    store.save(ROWS[0], computed(model, ROWS[0]))
    assert has(store, ROWS[0])
    assert not has(KVStore(tmp_path, access("another"), ROOMY), ROWS[0])
    assert not has(store, Row((*ROWS[0].tokens, 1), 1.0, "a"))
    assert not has(store, Row(ROWS[0].tokens, 1.0, "b"))


def test_the_fingerprint_names_the_weights(tmp_path: Path) -> None:
    names = set()
    for seed, dtype in ((0, "float32"), (0, "bfloat16"), (1, "float32")):
        path = tiny.save(tmp_path / f"{seed}", "qwen2", seed)
        for _ in range(2):
            names.add(LanguageModel.load(path, tiny.VOCABULARY, dtype=dtype).fingerprint)
    assert len(names) == 3


def kv(tokens: int) -> TensorKV:
    return TensorKV(torch.ones(1, 1, tokens, 8), torch.zeros(1, 1, tokens, 8))


def access(fingerprint: str = "model") -> Any:
    """Of a model that is not there."""
    return SimpleNamespace(fingerprint=fingerprint, parse=TensorKV.load)


def row(number: int, document: str = "a", tokens: int = 100) -> Row:
    return Row(tuple([number] * tokens), 0.0, document)


def has(store: KVStore, row: Row) -> bool:
    return store.load(row) is not None


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    rows = [row(number) for number in range(3)]
    store = KVStore(tmp_path, access(), ROOMY)
    store.save(rows[0], kv(100))
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    store = KVStore(tmp_path, access(), 2 * size)
    store.save(rows[1], kv(100))
    assert store.load(rows[0]) is not None
    store.save(rows[2], kv(100))
    assert [has(store, each) for each in rows] == [True, False, True]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 2 * size
    store.save(row(3, tokens=1000), kv(1000))
    assert [has(store, each) for each in rows] == [True, False, True]
    # The order outlives the process, and a lower cap takes effect at the start.
    os.utime(next(path for path in tmp_path.iterdir()), (1, 1))
    store = KVStore(tmp_path, access(), size)
    assert len(list(tmp_path.iterdir())) == 1
    KVStore(tmp_path, access(), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_document_takes_its_rows_along(tmp_path: Path) -> None:
    store = KVStore(tmp_path, access(), ROOMY)
    store.restrict(["a", "b"])
    same_text = [row(1, "a"), row(1, "b")]
    for each in (*same_text, row(2, "a"), row(3, "stranger")):
        store.save(each, kv(100))
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / f"{next(tmp_path.iterdir()).name}.tmp").write_bytes(b"half of a file")
    store.forget("a")
    store.save(row(2, "a"), kv(100))  # an answer under way
    assert [has(store, each) for each in same_text] == [False, True]
    store.admit("a")
    store.save(row(2, "a"), kv(100))
    assert has(store, row(2, "a"))
    # What a kill between deleting a document and its files leaves, the next start clears.
    store = KVStore(tmp_path, access(), ROOMY)
    store.restrict(["b"])
    assert has(store, row(1, "b"))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_fails_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    store = KVStore(tmp_path / "file", access(), ROOMY)
    store.save(row(1), kv(100))
    assert store.load(row(1)) is None
