"""A model in a `.gguf` file, run by llama.cpp in this process.

A row is a sequence of llama.cpp's cache. All rows with work share a batch, whatever each does: a
step, several positions to verify, a piece of a prompt. A prefix that is already in the cache is
copied, not computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from dragon.errors import ConfigurationError, DragonError, FrameError
from dragon.inference.backends.backend import KV, PIECE, never
from dragon.inference.backends.llama_cpp import api
from dragon.inference.backends.llama_cpp.context import (
    BATCH,
    OUTPUTS,
    Context,
    NoRoomError,
    RowState,
    SequencePiece,
    StateLayout,
)
from dragon.inference.backends.llama_cpp.gguf import GgufMetadata
from dragon.inference.backends.slots import (
    BLOCK,
    MAX_CONTEXT,
    KeptTokens,
    PrefixStore,
    Slots,
    blocks_of,
)

T = TypeVar("T")
EXACT_BLOCK = 64
"""Prompt tokens that exact mode computes at once."""
# Positions that all rows share, enough for one row at full length or many short ones; the cache
# begins with fewer.
_POSITIONS = 16384
_AT_FIRST = 2048
# In exact mode each sequence has positions of its own.
_AT_FIRST_APART = 512


@dataclass(frozen=True)
class _Job:
    """A part of a run to compute: all up to `end`, with the last `outputs` distributions."""

    run: KeptTokens
    end: int
    outputs: int = 0


class LlamaCpp:
    """Weights and slots. Only the engine's thread runs it.

    With quantized weights, the values of a position depend a little on what shares its batch and on
    where it lies in the cache. `exact` avoids that: a prompt is computed in blocks of fixed size
    from its beginning, what follows token by token, and each row alone, in a cache of its own. A
    text then depends only on its tokens, whatever else runs or is kept.
    """

    full = True
    parallel = True

    def __init__(
        self,
        path: Path,
        vocab_size: int,
        *,
        threads: int,
        adapter: Path | None = None,
        exact: bool = False,
    ) -> None:
        """Load a file. Raises `ConfigurationError` on failure."""
        metadata = GgufMetadata.read(path)
        if metadata.tokens < vocab_size:
            raise ConfigurationError(f"{path.name}: the tokenizer has more tokens than the model")
        self.name = path.stem
        self.vocab_size = vocab_size
        self.context = min(MAX_CONTEXT, metadata.context)
        self.quotes = metadata.quotes
        self.ends = metadata.ends
        self._files = [path] if adapter is None else [path, adapter]
        self._exact = exact
        self._threads = threads
        self._lib = api.library()
        self._model = load_weights(path, metadata.tokens)
        # Slots, and sequences kept from finished texts; apart, each takes memory of its own.
        slots, kept = (16, 4) if exact else (32, 32)
        room = BLOCK * blocks_of(max(self.context, _POSITIONS))
        most = BLOCK * blocks_of(self.context) if exact else room
        self._context = Context(
            self._model,
            sequences=slots + kept,
            positions=min(most, _AT_FIRST_APART if exact else _AT_FIRST),
            most=most,
            threads=threads,
            apart=exact,
        )
        if adapter is not None:
            self._context.add_adapter(adapter)
        self._store = PrefixStore(slots + kept, lambda sequence: self._context.cut(sequence, 0))
        self._runs: dict[int, KeptTokens] = {}
        self._layout = self._layout_of_states()
        self.cache = Slots(slots, self.context, room, self._end)

    @property
    def kv(self) -> LlamaCpp | None:
        """Itself, unless llama.cpp keeps several caches for this model's layers."""
        return self if self._layout is not None else None

    @cached_property
    def weights(self) -> str:
        """Identifies the content of the file, and of the adapter's."""
        return "+".join(map(_digest, self._files))

    def begin(self, slots: Sequence[int], *, adapted: bool) -> None:
        for slot in slots:
            self._end(slot)
            self._runs[slot] = self._store.take(adapted=adapted and len(self._files) > 1)

    def forward(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        """As `Backend.forward`; raises `DragonError` if llama.cpp fails."""
        rows = zip(slots, starts, tokens.tolist(), strict=True)
        jobs = []
        for run in [self._placed(*row) for row in rows]:
            end = len(run.tokens)
            self._reuse(run, end - outputs)
            if not outputs:  # less than a whole piece is computed with what follows
                end = run.held + (end - run.held) // PIECE * PIECE
            jobs.append(_Job(run, end, outputs))
        logits = self._compute(jobs, starts, cancelled)
        for job in jobs:
            job.run.prompt = job.run.prompt and not outputs
        return torch.stack(logits)

    @cached_property
    def fingerprint(self) -> str:
        machine = api.FFI.string(self._lib.llama_print_system_info()).decode()
        split = EXACT_BLOCK if self._exact else PIECE
        parts = (self.weights, str(api.VERSIONS), machine, str(self._threads), str(split))
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def holds(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether everything that `write` could restore is already in the cache."""
        run = replace(self._runs[slot], tokens=list(tokens))
        return self._store.longest(run, len(tokens))[1] >= self._whole(len(tokens))

    def read(self, slot: int, tokens: int) -> RowState:
        """The keys and values of the first `tokens` tokens that a row was fed, computed now.

        In exact mode, those of whole blocks only.
        """
        run = self._runs[slot]
        self._compute([_Job(run, self._whole(tokens))], [tokens], never)
        assert run.held == self._whole(tokens), "the row holds more than that"
        if run.held == 0:
            return RowState(b"")
        return self._written_by.unwrap(self._context.read(run.sequence))

    def write(self, slot: int, tokens: Sequence[int], kv: KV | bytes) -> None:
        """Begin a row with a text whose keys and values were computed before.

        Raises `FrameError` for bytes that no model computes.
        """
        layout = self._written_by
        kept = layout.check(kv if isinstance(kv, bytes) else kv.pack())
        run = self._runs[slot]
        self._cut(run, 0)
        if kept.data:
            self._roomy(lambda: self._context.write(run.sequence, layout.wrap(kept)))
        run.tokens = list(tokens)
        run.held = run.sound = layout.tokens(kept)

    def parse(self, data: bytes) -> RowState:
        try:
            return self._written_by.check(data)
        except FrameError as error:
            raise ValueError(str(error)) from error

    def packed_bytes(self, tokens: int) -> int:
        return self._whole(tokens) * sum(self._written_by.widths)

    def close(self) -> None:
        self._context.close()
        self._lib.llama_model_free(self._model)

    @property
    def _written_by(self) -> StateLayout:
        assert self._layout is not None, "this model's keys and values stay inside"
        return self._layout

    def _layout_of_states(self) -> StateLayout | None:
        """How llama.cpp lays out the first sequence, found by having it write one token."""
        run = self._store.take(adapted=False)
        self._context.decode([SequencePiece(run.sequence, 0, [0])])
        layout = StateLayout.of(self._context.read(run.sequence))
        self._context.cut(run.sequence, 0)
        self._store.keep(run)
        return layout

    def _whole(self, tokens: int) -> int:
        """How many of a text's first tokens can be copied to another."""
        return tokens - tokens % EXACT_BLOCK if self._exact else tokens

    def _placed(self, slot: int, start: int, tokens: Sequence[int]) -> KeptTokens:
        """The run of a slot, with these tokens at `start` and none after them."""
        if slot not in self._runs:
            self.begin([slot], adapted=True)
        run = self._runs[slot]
        self._cut(run, start)
        run.tokens += tokens
        return run

    def _cut(self, run: KeptTokens, length: int) -> None:
        if run.held > length:
            self._context.cut(run.sequence, length)
        run.cut(length)

    def _end(self, slot: int) -> None:
        """Keep what a slot holds until its room is needed."""
        if run := self._runs.pop(slot, None):
            self._store.keep(run)

    def _reuse(self, run: KeptTokens, limit: int) -> None:
        """Copy what another run has of the first `limit` tokens of a prompt."""
        if not run.prompt:
            return
        donor, length = self._store.longest(run, limit)
        length = self._whole(length)
        if donor is not None and length > run.held:
            self._context.cut(run.sequence, 0)
            self._context.copy(donor.sequence, run.sequence, length)
            run.held = run.sound = length

    def _compute(
        self, jobs: Sequence[_Job], starts: Sequence[int], cancelled: Callable[[], bool]
    ) -> list[torch.Tensor]:
        """The distributions of each job, float32 [outputs, V].

        On failure or cancellation, the runs hold nothing past their `starts`.
        """
        found: dict[KeptTokens, list[torch.Tensor]] = {job.run: [] for job in jobs}
        try:
            for adapted in (False, True):
                some = [job for job in jobs if job.run.adapted == adapted]
                for batch in self._batches(some):
                    self._context.adapt(adapted)
                    pieces = [piece for _, piece in batch]
                    logits = self._roomy(partial(self._context.decode, pieces, cancelled))
                    for run, piece in batch:
                        run.held += len(piece.tokens)
                        if not self._exact or (run.prompt and len(piece.tokens) == EXACT_BLOCK):
                            run.sound = run.held
                        part, logits = logits[: piece.outputs], logits[piece.outputs :]
                        found[run].append(torch.from_numpy(part[:, : self.vocab_size].copy()))
        except DragonError:
            for job, start in zip(jobs, starts, strict=True):
                self._cut(job.run, start)
            raise
        nothing = torch.empty(0, self.vocab_size)
        return [torch.cat(found[job.run]) if job.outputs else nothing for job in jobs]

    def _batches(self, jobs: Sequence[_Job]) -> Iterator[list[tuple[KeptTokens, SequencePiece]]]:
        """The jobs' pieces in as few batches as possible; in exact mode one piece per batch."""
        batch: list[tuple[KeptTokens, SequencePiece]] = []
        tokens, outputs = BATCH, OUTPUTS  # room left in the batch
        for job in jobs:
            for whole in self._pieces(job):
                rest = whole
                while rest.tokens:
                    piece, rest = rest.split(tokens, outputs)
                    if piece.tokens:
                        batch.append((job.run, piece))
                    tokens, outputs = tokens - len(piece.tokens), outputs - piece.outputs
                    if rest.tokens or self._exact:
                        yield batch
                        batch, tokens, outputs = [], BATCH, OUTPUTS
        if batch:
            yield batch

    def _pieces(self, job: _Job) -> Iterator[SequencePiece]:
        """The pieces to compute of a job: one, or those that exact mode prescribes."""
        run, start = job.run, job.run.held
        size = job.end - start if not self._exact else EXACT_BLOCK if run.prompt else 1
        silent = job.end - job.outputs
        while start < job.end:
            end = min(start + size, job.end)
            outputs = max(0, end - max(start, silent))
            yield SequencePiece(run.sequence, start, run.tokens[start:end], outputs)
            start = end

    def _roomy(self, call: Callable[[], T]) -> T:
        """Call what needs room, evicting finished texts and then growing the cache as needed."""
        while True:
            try:
                return call()
            except NoRoomError:
                evicted = not self._context.apart and self._store.evict()
                if not evicted and not self._context.grow():
                    raise


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_weights(path: Path, tokens: int) -> Any:
    """The model in a file, with its number of tokens.

    Raises `ConfigurationError` if it cannot be loaded, or cannot be rolled back.
    """
    lib = api.library()
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    if model == api.FFI.NULL:
        raise ConfigurationError(f"llama.cpp cannot load {path}: {api.complaint()}")
    if lib.llama_model_is_recurrent(model) or lib.llama_model_is_hybrid(model):
        raise ConfigurationError(
            f"{path.name}: models that cannot roll back a token are not supported"
        )
    if lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)) != tokens:
        raise ConfigurationError(f"{path.name}: llama.cpp counts its tokens differently")
    return model
