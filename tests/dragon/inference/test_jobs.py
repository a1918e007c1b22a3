"""How what comes of steps gets back: one call for each place, and one answer's fault its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from dragon.inference.decoder import Decoder
from dragon.inference.jobs import Outcome, Post, Step, StepResult, deliver
from dragon.protocol.messages import Work

DECODED = StepResult([], 1)


def a_step(done: Callable[[Outcome], Any], post: Post) -> Step:
    return Step(cast(Decoder, None), Work(0, (), 1, 0), done, post)


def test_each_place_is_woken_once_and_hears_in_order() -> None:
    here: list[Callable[[], None]] = []
    there: list[Callable[[], None]] = []
    heard: list[int] = []
    places = [here.append, there.append, here.append, here.append]
    steps = [a_step(lambda _, i=i: heard.append(i), post) for i, post in enumerate(places)]
    deliver([(step, DECODED) for step in steps])
    assert (len(here), len(there), heard) == (1, 1, [])
    here[0]()
    there[0]()
    assert heard == [0, 2, 3, 1]


def test_an_answer_that_fails_keeps_no_other_from_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Outcome] = []

    def fail(_: Outcome) -> None:
        raise RuntimeError("this one")

    def now(call: Callable[[], None]) -> None:
        call()

    deliver([(a_step(fail, now), DECODED), (a_step(heard.append, now), DECODED)])
    assert heard == [DECODED]
    assert "this one" in caplog.text
