"""Runs a service on slower hardware than there is: `python -m bench.floors 50 peer`.

Every decode step takes at least so many milliseconds, spent layer by layer, so that preemption
between layers works as it would on a slow machine.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import cli
from dragon.model import LanguageModel

# More tokens a row than any catch-up feeds: a prefill, which keeps its own speed.
_PREFILL_TOKENS = 65


def slow_down(model: LanguageModel, milliseconds: float) -> None:
    """Give every layer its share of the floor."""
    layers = model.layers
    share = milliseconds / 1000 / len(layers)
    began = 0.0

    def wait(index: int, tokens: int) -> None:
        if tokens < _PREFILL_TOKENS:
            time.sleep(max(0.0, began + share * index - time.perf_counter()))

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


def main() -> None:
    """Start a service whose model is slowed down."""
    milliseconds = float(sys.argv.pop(1))
    load = LanguageModel.load

    def slow_load(*arguments: Any, **options: Any) -> LanguageModel:
        model = load(*arguments, **options)
        slow_down(model, milliseconds)
        return model

    LanguageModel.load = slow_load  # type: ignore[method-assign]
    cli.main()


if __name__ == "__main__":
    main()
