"""A client that hangs up during the prefill stops it between two layers of the model.

Covers `app.generation.run`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI

from app.container import AppState
from app.main import create_app
from app.settings import Settings
from dragon.inference.engine import Engine
from tests import tiny
from tests.app.conftest import KEY, hanging_up, serving, wait_until

WAIT_S = 60.0
PROMPT = "The key safe hangs left of the door. " * 20


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, str]]:
    directory = tmp_path_factory.mktemp("device")
    model = str(tiny.save(directory / "model"))
    app = create_app(Settings(_env_file=None, data_dir=directory, api_key=KEY, model=model))
    with serving(app) as address:
        yield app, address


class Held:
    """Holds a forward before the model's second layer, and notes which layers it reached."""

    def __init__(self, engine: Engine) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.reached: list[int] = []
        layers = engine.model.layers
        hooks = [layer.register_forward_pre_hook(self._note(i)) for i, layer in enumerate(layers)]
        hooks.append(layers[1].register_forward_pre_hook(self._hold, prepend=True))
        self._hooks = hooks

    def _note(self, layer: int) -> Callable[..., None]:
        return lambda *_: self.reached.append(layer)

    def _hold(self, *_: object) -> None:
        self.entered.set()
        assert self.leave.wait(WAIT_S)

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "ask"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}], "n": 3}),
        ("/v1/completions", {"prompt": [PROMPT, PROMPT]}),
    ],
)
def test_hanging_up_in_the_prefill(
    device: tuple[FastAPI, str], path: str, ask: dict[str, object], stream: bool
) -> None:
    app, address = device
    state: AppState = app.state.dragon
    engine: Engine = state.generation.engine  # type: ignore[attr-defined]
    free, begun = engine.free_slots, answers(state, "cancelled")
    held = Held(engine)
    with hanging_up(address, path, {"model": "model", "stream": stream, **ask}):
        assert held.entered.wait(WAIT_S)
        assert engine.free_slots < free
    wait_until(lambda: in_progress(state) == 0)
    held.leave.set()
    wait_until(lambda: engine.free_slots == free)
    held.remove()
    assert held.reached == [0]  # the second layer was never run, nor was another prefill begun
    assert answers(state, "cancelled") == begun + (3 if "n" in ask else 2)


def answers(state: AppState, outcome: str) -> float:
    labels = {"mode": "oneway", "outcome": outcome}
    return state.metrics.registry.get_sample_value("dragon_answers_total", labels) or 0.0


def in_progress(state: AppState) -> float:
    return state.metrics.registry.get_sample_value("dragon_answers_in_progress") or 0.0
