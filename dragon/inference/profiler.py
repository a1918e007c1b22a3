"""Measures decode steps as the context grows (DRAGON, arXiv 2504.11197, section 5.2, offline)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from dragon.inference.backends.backend import Backend
from dragon.inference.decoder import Decoder, step
from dragon.inference.rows import Row
from dragon.protocol.messages import Work

CHUNK_TOKENS = 64
# Longer contexts are not measured but extrapolated by the fitted line.
_MAX_STEPS = 192
_RUNS = 3
_WARM_UP = 3


def decode_delays(
    model: Backend, rows: int, *, steps: int = _MAX_STEPS, seed: int = 0
) -> tuple[list[int], list[float]]:
    """Contexts, in tokens, and the seconds of a step that ends there, averaged over runs.

    Rows of random tokens stand for documents; they are prefilled, then decoded with random tokens
    until the context or `steps` ends.
    """
    runs = [list(_run(model, rows, steps, random.Random(seed + run))) for run in range(_RUNS)]
    seconds = [sum(delays) / _RUNS for delays in zip(*runs, strict=True)]
    first = CHUNK_TOKENS + 1 + _WARM_UP
    return list(range(first + 1, first + 1 + len(seconds) - _WARM_UP)), seconds[_WARM_UP:]


def _run(model: Backend, rows: int, steps: int, chance: random.Random) -> Iterator[float]:
    def tokens(count: int) -> tuple[int, ...]:
        return tuple(chance.randrange(model.vocab_size) for _ in range(count))

    chunks = [Row(tokens(CHUNK_TOKENS), 0.0) for _ in range(min(rows, model.cache.slots))]
    decoder = Decoder(model, chunks, tokens(1), limit=steps)
    acquired = decoder.acquire()
    assert acquired, "nothing else uses the model"
    try:
        decoder.prefill()
        for keep in range(min(decoder.horizon, steps)):
            began = time.perf_counter()
            step(model, [decoder], [Work(keep, tokens(1), 1, 0)])
            yield time.perf_counter() - began
    finally:
        decoder.release()
