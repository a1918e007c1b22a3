"""A context of llama.cpp: sequences of tokens in a cache that grows, and batches over them."""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragon.errors import ConfigurationError, DragonError, FrameError, PreemptedError
from dragon.inference.backends.backend import never
from dragon.inference.backends.llama_cpp import api

BATCH = 512
"""Tokens per call of llama.cpp, over all rows."""
OUTPUTS = 64
"""Distributions per call: they take memory."""
Logits = npt.NDArray[np.float32]
_POLL_S = 0.001  # how often to ask whether a batch is still wanted


@dataclass(frozen=True)
class SequencePiece:
    """Tokens to add to a sequence at `start`; the last `outputs` of them need distributions."""

    sequence: int
    start: int
    tokens: Sequence[int]
    outputs: int = 0

    def split(self, tokens: int, outputs: int) -> tuple[SequencePiece, SequencePiece]:
        """Split off the first tokens, at most `tokens` with at most `outputs` outputs."""
        silent = len(self.tokens) - self.outputs
        cut = min(len(self.tokens), tokens, silent + outputs)
        first = max(0, cut - silent)
        return (
            SequencePiece(self.sequence, self.start, self.tokens[:cut], first),
            SequencePiece(self.sequence, self.start + cut, self.tokens[cut:], self.outputs - first),
        )


class Context:
    """A cache of keys and values in half precision, and the model's weights over it.

    Sequences share `positions` cells and store a common prefix once. If they are `apart`, each has
    as many cells to itself, so that no bit depends on what else is in the cache. The cache starts
    small and grows to at most `most` positions. Not thread-safe.
    """

    def __init__(
        self,
        model: Any,
        *,
        sequences: int,
        positions: int,
        most: int,
        threads: int,
        apart: bool = False,
    ) -> None:
        self._lib = api.library()
        self._model = model
        vocabulary = self._lib.llama_model_get_vocab(model)
        self._vocab_size = self._lib.llama_vocab_n_tokens(vocabulary)
        self._sequences = sequences
        self.positions = positions
        self._most = most
        self._threads = threads
        self.apart = apart
        self._adapters: Any = None
        self._adapted = False
        # Read by llama.cpp between two operations: a string of length one once a batch is to end.
        self._stop = api.FFI.new("char[2]")
        self._watcher = ThreadPoolExecutor(1, "llama.cpp")
        self._batch = _Batch()
        self._context = self._made()

    def decode(
        self, pieces: Sequence[SequencePiece], cancelled: Callable[[], bool] = never
    ) -> Logits:
        """Compute one batch: logits of all outputs [outputs, V], in order, until the next call.

        At most `BATCH` tokens and `OUTPUTS` outputs. Raises `PreemptedError` once `cancelled`, and
        `DragonError` if llama.cpp fails; the sequences are then as before.
        """
        batch = self._batch.fill(pieces)
        with self._watched(cancelled):
            status = self._lib.llama_decode(self._context, batch)
        if status == 0:
            shape = sum(piece.outputs for piece in pieces), self._vocab_size
            if shape[0] == 0:
                return np.empty(shape, np.float32)
            held = api.FFI.buffer(self._lib.llama_get_logits(self._context), 4 * math.prod(shape))
            return np.frombuffer(held, np.float32).reshape(shape)
        for piece in pieces:
            self.cut(piece.sequence, piece.start)
        if status == api.ABORTED:
            raise PreemptedError("the step is no longer wanted")
        if status == api.NO_ROOM:
            raise NoRoomError("llama.cpp has no room for these tokens")
        raise DragonError(f"llama.cpp failed: {api.complaint()}")

    def cut(self, sequence: int, length: int) -> None:
        """Drop what a sequence holds past `length` tokens."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, length, -1)

    def copy(self, source: int, target: int, length: int) -> None:
        """Begin an empty sequence with the first `length` tokens of another."""
        if self.apart:
            self.write(target, self.read(source))
            self.cut(target, length)
        else:
            self._lib.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def read(self, sequence: int) -> bytes:
        """A sequence's keys and values, in llama.cpp's format."""
        size = self._lib.llama_state_seq_get_size(self._context, sequence)
        state = api.FFI.new("uint8_t[]", size)
        if self._lib.llama_state_seq_get_data(self._context, state, size, sequence) != size:
            raise DragonError(f"llama.cpp returned no state: {api.complaint()}")
        return bytes(api.FFI.buffer(state))

    def write(self, sequence: int, state: bytes) -> None:
        """Fill an empty sequence with what `read` returned. Raises `DragonError` on failure."""
        data = api.FFI.from_buffer("uint8_t[]", state)
        if not self._lib.llama_state_seq_set_data(self._context, data, len(state), sequence):
            self.cut(sequence, 0)
            raise NoRoomError(f"llama.cpp rejected a state: {api.complaint()}")

    def add_adapter(self, path: Path) -> None:
        """Load a LoRA adapter for the weights. Raises `ConfigurationError` on failure."""
        adapter = self._lib.llama_adapter_lora_init(self._model, str(path).encode())
        if adapter == api.FFI.NULL:
            raise ConfigurationError(f"llama.cpp cannot load {path}: {api.complaint()}")
        self._adapters = api.FFI.new("adapter_t[]", [adapter])

    def adapt(self, wanted: bool) -> None:
        """Switch the adapter on or off; without one, do nothing."""
        if self._adapters is not None and wanted != self._adapted:
            scales = api.FFI.new("float[]", [1.0])
            self._lib.llama_set_adapters_lora(self._context, self._adapters, int(wanted), scales)
            self._adapted = wanted

    def grow(self) -> bool:
        """Double the positions, keeping the content; False if they are at their limit."""
        if self.positions >= self._most:
            return False
        size = self._lib.llama_state_get_size(self._context)
        held = api.FFI.new("uint8_t[]", size)
        written = self._lib.llama_state_get_data(self._context, held, size)
        self._lib.llama_free(self._context)  # before allocating the larger one: both need not fit
        self.positions = min(2 * self.positions, self._most)
        self._context = self._made()
        if self._lib.llama_state_set_data(self._context, held, written) != written:
            raise DragonError(f"llama.cpp lost its cache: {api.complaint()}")
        adapted, self._adapted = self._adapted, False
        self.adapt(adapted)
        return True

    def close(self) -> None:
        self._watcher.shutdown()
        self._lib.llama_free(self._context)

    @property
    def _memory(self) -> Any:
        return self._lib.llama_get_memory(self._context)

    def _made(self) -> Any:
        params = self._lib.llama_context_default_params()
        params.n_ctx = self.positions * (self._sequences if self.apart else 1)
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max = self._sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = OUTPUTS
        params.n_threads = params.n_threads_batch = self._threads
        params.kv_unified = not self.apart
        context = self._lib.llama_init_from_model(self._model, params)
        if context == api.FFI.NULL:
            raise ConfigurationError(f"llama.cpp has no memory for its cache: {api.complaint()}")
        for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_threads", "n_threads_batch"):
            found, wanted = getattr(self._lib, f"llama_{name}")(context), getattr(params, name)
            if found != wanted:
                raise ConfigurationError(f"llama.cpp took {name} {found}, not {wanted}")
        if self._lib.llama_n_ctx_seq(context) != self.positions:
            raise ConfigurationError("llama.cpp divides its cache among sequences differently")
        self._lib.llama_set_abort_callback(context, api.strlen(), self._stop)
        return context

    @contextmanager
    def _watched(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Poll `cancelled` on a thread of its own, so that llama.cpp's never call Python."""
        if cancelled is never:
            yield
            return
        done = threading.Event()
        watching = self._watcher.submit(self._watch, cancelled, done)
        try:
            yield
        finally:
            done.set()
            watching.result()
            self._stop[0] = b"\0"

    def _watch(self, cancelled: Callable[[], bool], done: threading.Event) -> None:
        while not cancelled():
            if done.wait(_POLL_S):
                return
        self._stop[0] = b"x"


class NoRoomError(DragonError):
    """The cache has no cells left for a batch."""


class _Batch:
    """llama.cpp's arrays of a batch, refilled each time."""

    def __init__(self) -> None:
        self._sequence, self._token, self._position = np.zeros((3, BATCH), np.int32)
        self._output = np.zeros(BATCH, np.int8)
        view, new = api.FFI.from_buffer, api.FFI.new
        self._ids = view("seq_t[]", self._sequence)
        tokens, positions = view("token_t[]", self._token), view("pos_t[]", self._position)
        counts = new("int32_t[]", [1] * BATCH)
        pointers = new("seq_t *[]", [self._ids + i for i in range(BATCH)])
        outputs = view("int8_t[]", self._output)
        self._arrays = tokens, api.FFI.NULL, positions, counts, pointers, outputs

    def fill(self, pieces: Sequence[SequencePiece]) -> Any:
        """A `batch_t` of these pieces, valid until the next call."""
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece.tokens)
            self._sequence[start:end] = piece.sequence
            self._token[start:end] = piece.tokens
            self._position[start:end] = np.arange(piece.start, piece.start + end - start)
            self._output[start:end] = 0
            self._output[end - piece.outputs : end] = 1
        return api.FFI.new("batch_t *", (end, *self._arrays))[0]


_HALF = 1  # the type code of half precision


@dataclass(frozen=True)
class RowState:
    """Keys, then values, of a row's first tokens: per layer one token after another, float16.

    Only these numbers are kept on disk or cross a link: llama.cpp's own reader, which trusts its
    input, sees nothing but what `StateLayout` builds around them.
    """

    data: bytes

    def pack(self) -> bytes:
        """Encoded for the link, and for files."""
        return self.data

    dump = pack


@dataclass(frozen=True)
class StateLayout:
    """The bytes that llama.cpp writes around the numbers of a sequence that begins at position 0.

    `widths` are the bytes of a token in each part: keys of all layers, then values.
    """

    before: bytes
    streams: int
    between: bytes
    widths: tuple[int, ...]

    @classmethod
    def of(cls, state: bytes) -> StateLayout | None:
        """The layout of a state of sequence 0; None if llama.cpp uses another format."""
        try:
            streams, tokens = struct.unpack_from("<2I", state, 8)
            place = 16 + 12 * tokens
            between = state[place : place + 16]
            place += 16
            widths = []
            for _ in range(2 * struct.unpack_from("<4I", between)[1]):
                kind, width = struct.unpack_from("<iQ", state, place)
                if kind != _HALF:
                    return None
                widths.append(width)
                place += 12 + tokens * width
        except struct.error:
            return None
        found = cls(state[:8], streams, between, tuple(widths))
        return found if found.wrap(found.unwrap(state)) == state else None

    def unwrap(self, state: bytes) -> RowState:
        """The numbers in a state that llama.cpp wrote."""
        place = 12
        while (tokens := int(struct.unpack_from("<I", state, place)[0])) == 0:
            place += 4  # other sequences, if each has its own cache
        place += 4 + 12 * tokens + len(self.between)
        parts = []
        for width in self.widths:
            place += 12
            parts.append(state[place : place + tokens * width])
            place += tokens * width
        return RowState(b"".join(parts))

    def wrap(self, kept: RowState) -> bytes:
        """The state for llama.cpp to read."""
        tokens = self.tokens(kept)
        parts = [self.before, struct.pack("<2I", self.streams, tokens)]
        parts += [struct.pack("<3I", position, 1, 0) for position in range(tokens)]
        parts.append(self.between)
        place = 0
        for width in self.widths:
            parts.append(struct.pack("<iQ", _HALF, width))
            parts.append(kept.data[place : place + tokens * width])
            place += tokens * width
        parts.append(bytes(4 * (self.streams - 1)))
        return b"".join(parts)

    def tokens(self, kept: RowState) -> int:
        return len(kept.data) // sum(self.widths)

    def check(self, data: bytes) -> RowState:
        """Validate a state from elsewhere; raises `FrameError` for what no model computes.

        A NaN would outlive its answer in the cache: even if it is masked, 0 times NaN is NaN.
        """
        odd = len(data) % sum(self.widths)
        if odd or not np.isfinite(np.frombuffer(data, np.float16)).all():
            raise FrameError("document KV must be whole and finite")
        return RowState(data)
