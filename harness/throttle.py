"""Simulates slower hardware: every decode step takes at least a given time.

The time is spent in small parts, so that a step can be abandoned between two layers, as on a slow
machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from dragon.errors import PreemptedError
from dragon.inference.backends.backend import Backend, never

LAYERS = 28
"""Layers of the simulated model; as many as Qwen2.5-1.5B has."""

# More tokens per row than any catch-up feeds: a prefill, which is not slowed down.
_PREFILL_TOKENS = 65


def slow_down(model: Backend, milliseconds: float) -> None:
    """Give every step a minimum duration, on any backend."""
    forward = model.forward
    pause = milliseconds / 1000 / LAYERS

    def slow(
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        due = time.perf_counter() + milliseconds / 1000
        logits = forward(slots, starts, tokens, outputs, cancelled=cancelled)
        decodes = outputs > 0 and tokens.shape[1] < _PREFILL_TOKENS
        while decodes and (left := due - time.perf_counter()) > 0:
            time.sleep(min(left, pause))
            if cancelled():
                raise PreemptedError("the step is no longer wanted")
        return logits

    model.forward = slow  # type: ignore[method-assign]
