"""States of rows: on disk bit for bit what is computed, and nothing else gets near llama.cpp."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dragon.errors import FrameError
from dragon.inference.backends.llama_cpp.context import RowState, StateLayout
from dragon.inference.backends.llama_cpp.model import EXACT_BLOCK, LlamaCpp
from dragon.inference.kv_store import KVStore
from dragon.inference.rows import Row
from tests.dragon.inference.backends.llama_cpp.conftest import ONE_FORMAT, Load
from tests.dragon.inference.test_kv_store import CONVERSATION, ROOMY, flip_a_bit, truncate
from tests.dragon.inference.test_kv_store import logits as logits_of

ROW = Row(tuple(range(40, 40 + 3 * EXACT_BLOCK)), 0.0, "a")


def logits(model: LlamaCpp, store: KVStore | None, row: Row = ROW) -> torch.Tensor:
    """Of one token after the conversation."""
    return logits_of(model, [row], store)


def computed(model: LlamaCpp) -> list[int]:
    """How many tokens each batch has, from now on."""
    counts: list[int] = []
    decode = model._context.decode
    model._context.decode = lambda pieces, *rest: (  # type: ignore[method-assign]
        counts.append(sum(len(piece.tokens) for piece in pieces)) or decode(pieces, *rest)  # type: ignore[func-returns-value]
    )
    return counts


@pytest.mark.parametrize("exact", [True, False])
def test_loaded_equals_computed(load: Load, tmp_path: Path, exact: bool) -> None:
    model = load(exact=exact)
    slow = logits(load(exact=exact), None)
    assert torch.allclose(logits(model, KVStore(tmp_path, model, ROOMY)), slow, atol=0.1)
    # Another process, whose cache is empty.
    other = load(exact=exact)
    counts = computed(other)
    fast = logits(other, KVStore(tmp_path, other, ROOMY))
    assert counts == [len(CONVERSATION), 1]
    assert torch.equal(fast, slow) if exact else torch.allclose(fast, slow, atol=0.1)


@ONE_FORMAT
def test_what_is_in_memory_is_not_read_from_disk(load: Load, tmp_path: Path) -> None:
    model = load()
    store = KVStore(tmp_path, model, ROOMY)
    logits(model, store)
    next(tmp_path.iterdir()).unlink()
    counts = computed(model)
    logits(model, store)
    assert counts == [1, 1]


@ONE_FORMAT
def test_one_mode_does_not_take_what_the_other_has_kept(load: Load, tmp_path: Path) -> None:
    model, exact = load(), load(exact=True)
    assert model.fingerprint != exact.fingerprint
    logits(model, KVStore(tmp_path, model, ROOMY))
    assert KVStore(tmp_path, exact, ROOMY).load(ROW) is None


@ONE_FORMAT
@pytest.mark.parametrize("damage", [truncate, flip_a_bit])
def test_a_damaged_file_is_named_and_computed_again(
    load: Load, tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    model = load(exact=True)
    expected = logits(model, KVStore(tmp_path, model, ROOMY))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    damage(file)
    other = load(exact=True)
    with caplog.at_level(logging.WARNING):
        assert torch.equal(logits(other, KVStore(tmp_path, other, ROOMY)), expected)
    assert f"computing document KV again, {file.name} is damaged" in caplog.text
    assert file.read_bytes() == whole


_CHILD = """
import sys
from pathlib import Path
from dragon.inference import kv_store
from dragon.inference.backends.llama_cpp.model import LlamaCpp
from tests import tiny
from tests.dragon.inference.backends.llama_cpp.test_state import ROOMY, logits

model = LlamaCpp(Path(sys.argv[1]), tiny.VOCABULARY, threads=1, exact=True)
store = kv_store.KVStore(Path(sys.argv[2]), model, ROOMY)
if sys.argv[3] == "half":
    def stop(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        print("now", flush=True)
        sys.stdin.read()
    Path.write_bytes = stop
logits(model, store)
print("now", flush=True)
sys.stdin.read()
"""


@ONE_FORMAT
@pytest.mark.parametrize("when", ["half", "saved"])
def test_a_kill_between_saving_and_loading(
    tiny_gguf: Path, load: Load, tmp_path: Path, when: str
) -> None:
    """In the middle of a file, or as soon as it is whole."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(tiny_gguf), str(tmp_path), when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"now\n"
        process.send_signal(signal.SIGKILL)
    model = load(exact=True)
    counts = computed(model)
    store = KVStore(tmp_path, model, ROOMY)
    assert torch.equal(logits(model, store), logits(load(exact=True), None))
    assert (sum(counts) == len(CONVERSATION) + 1) == (when == "saved")
    assert [path.suffix for path in tmp_path.iterdir()] == [".kv"]


def test_packed_by_another_side_equals_computed_there(load: Load) -> None:
    model, other = load(exact=True), load(exact=True)
    (slot,) = model.cache.acquire(1, len(ROW.tokens)) or []
    model.forward([slot], [0], torch.tensor([ROW.tokens]), 0)
    packed = model.read(slot, len(ROW.tokens)).pack()
    assert len(packed) == model.packed_bytes(len(ROW.tokens))
    given = Row(ROW.tokens, 0.0, kv=packed)
    counts = computed(other)
    assert torch.equal(logits(other, None, given), logits(load(exact=True), None))
    assert sum(counts) == len(CONVERSATION) + 1


@ONE_FORMAT
@pytest.mark.parametrize("data", [b"x", b"\x00\x7e" * 6 * 64])
def test_what_no_model_makes_is_refused(load: Load, data: bytes) -> None:
    model = load()
    (slot,) = model.cache.acquire(1, 64) or []
    model.begin([slot], adapted=True)
    with pytest.raises(FrameError, match="whole and finite"):
        model.write(slot, [1, 2], data)
    with pytest.raises(ValueError, match="whole and finite"):
        model.parse(data)


def test_a_layout_that_is_not_known_is_none() -> None:
    assert StateLayout.of(b"") is None
    assert StateLayout.of(bytes(16) + b"\x01" * 40) is None


def test_unwrapped_and_wrapped_is_the_same(load: Load) -> None:
    for exact in (False, True):
        model = load(exact=exact)
        model.forward([0], [0], torch.arange(10, 90)[None], 1)
        run = model._runs[0]
        state = model._context.read(run.sequence)
        layout = model._layout
        kept = layout.unwrap(state)
        assert layout.tokens(kept) == 80
        if run.sequence == 0:
            assert layout.wrap(kept) == state
        assert layout.unwrap(layout.wrap(kept)) == RowState(kept.data)
