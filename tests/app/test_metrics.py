"""The metrics observe answers."""

from __future__ import annotations

import pytest

from app.generation.accumulator import AnswerState
from app.generation.events import Finished, GenerationRequest, TextDelta
from app.metrics import Metrics
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.sampling.params import Sampling


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: True, lambda: 1, Pace(LinkMeter(), DecodeDelay()))


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"dragon_{name}", labels) or 0.0


@pytest.mark.parametrize(
    ("ends", "cancelled", "outcome"),
    [
        (True, False, "stop"),
        (True, True, "stop"),
        (False, True, "cancelled"),
        (False, False, "error"),
    ],
)
def test_an_answer_is_counted_by_how_it_ended(
    metrics: Metrics, ends: bool, cancelled: bool, outcome: str
) -> None:
    answer = AnswerState(GenerationRequest((1, 2), "x", Sampling()))
    metrics.begun(answer)
    assert value(metrics, "answers_in_progress") == 1
    events = [TextDelta("a", (1,)), TextDelta("b", (2,)), *[Finished("stop", 2, 2)] * ends]
    for event in events:
        answer.take(event)
        metrics.observed(answer, event)
    metrics.over(answer, cancelled=cancelled)
    assert value(metrics, "answers_in_progress") == 0
    assert value(metrics, "answers_total", mode="oneway", outcome=outcome) == 1
    assert value(metrics, "first_text_seconds_count", mode="oneway") == 1
    assert value(metrics, "tokens_total", kind="answer") == 2 * ends
    assert value(metrics, "tokens_total", kind="prompt") == 2 * ends


def test_an_answer_without_text_has_no_time_to_it(metrics: Metrics) -> None:
    answer = AnswerState(GenerationRequest((1,), "x", Sampling()))
    metrics.begun(answer)
    metrics.over(answer, cancelled=True)
    assert value(metrics, "first_text_seconds_count", mode="oneway") == 0
    assert metrics._waiting == {}
