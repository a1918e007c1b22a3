"""Slower hardware than there is: every decode step takes at least so many milliseconds.

They are spent layer by layer, so that preemption between layers works as on a slow machine. A model
that takes tens of milliseconds has more layers than the small one that stands in for it: each
layer's wait is cut into the waits of several.
"""

from __future__ import annotations

import time
from typing import Any

from dragon.inference.backends.torch.model import LanguageModel, check

LAYERS = 28
"""Of the model that is stood in for; as many as Qwen2.5-1.5B has."""

# More tokens a row than any catch-up feeds: a prefill, which keeps its own speed.
_PREFILL_TOKENS = 65


def slow_down(model: LanguageModel, milliseconds: float) -> None:
    """Give every layer its share of the floor."""
    layers = model.layers
    share = milliseconds / 1000 / len(layers)
    pause = milliseconds / 1000 / LAYERS
    began = 0.0

    def wait(index: int, tokens: int) -> None:
        due = began + share * index
        while tokens < _PREFILL_TOKENS and (left := due - time.perf_counter()) > 0:
            time.sleep(min(left, pause))
            check()

    def before(index: int) -> Any:
        def hook(_: object, inputs: tuple[Any, ...]) -> None:
            nonlocal began
            if index == 0:
                began = time.perf_counter()
            wait(index, inputs[0].shape[1])

        return hook

    def after(_: object, inputs: tuple[Any, ...], __: object) -> None:
        wait(len(layers), inputs[0].shape[1])

    for index, layer in enumerate(layers):
        # Before the hook that looks whether the step is still wanted.
        layer.register_forward_pre_hook(before(index), prepend=True)
    layers[-1].register_forward_hook(after)
