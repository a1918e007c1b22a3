"""The state of an answer, and who sees it after each event."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from app.generation.accumulator import AnswerState, Seam, observing
from app.generation.events import (
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    SourcesFound,
    TextDelta,
)
from dragon.sampling.params import Sampling
from tests.fakes import SOURCE

EVENTS = [
    SourcesFound((SOURCE,)),
    PeerChanged(True, 0, "connected"),
    TextDelta("Under ", (1, 2)),
    PeerChanged(False, 2, "lost"),
    TextDelta("the mat", (3,)),
    PeerChanged(True, 3, "back"),
    TextDelta(".", (4,)),
]


@pytest.fixture
def answer() -> AnswerState:
    return AnswerState(GenerationRequest((1,), "Where is it?", Sampling()))


class Notes:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def begun(self, answer: AnswerState) -> None:
        self.seen.append("begun")

    def observed(self, answer: AnswerState, event: Event) -> None:
        self.seen.append(answer.text)

    def over(self, answer: AnswerState, *, cancelled: bool) -> None:
        self.seen.append("cancelled" if cancelled else "over")


def test_events_add_up(answer: AnswerState) -> None:
    for event in EVENTS:
        answer.take(event)
    assert (answer.text, answer.length, answer.tokens) == ("Under the mat.", 14, [1, 2, 3, 4])
    assert answer.sources == (SOURCE,)
    assert answer.participation == [(0, 2), (3, 4)]
    assert answer.seams == [
        Seam(0, True, "connected"),
        Seam(6, False, "lost"),
        Seam(13, True, "back"),
    ]
    assert not answer.finished
    with pytest.raises(RuntimeError):
        _ = answer.end
    answer.take(Finished("stop", 1, 4, ((0, 2),)))
    assert answer.participation == [(0, 2)]
    assert answer.end.reason == "stop"


async def written(
    answer: AnswerState, *observers: Notes, fails: bool = False
) -> AsyncGenerator[Event, None]:
    with observing(answer, *observers) as take:
        for event in EVENTS:
            yield take(event)
            if fails:
                raise ValueError("no more")


async def test_observers_see_the_state_after_each_event(answer: AnswerState) -> None:
    notes, other = Notes(), Notes()
    assert [event async for event in written(answer, notes, other)] == EVENTS
    texts = ["", "", "Under ", "Under ", "Under the mat", "Under the mat", "Under the mat."]
    assert notes.seen == other.seen == ["begun", *texts, "over"]


async def test_closing_is_seen(answer: AnswerState) -> None:
    notes = Notes()
    async with aclosing(written(answer, notes)) as events:
        await anext(events)
    assert notes.seen == ["begun", "", "cancelled"]


async def test_a_failure_is_raised_and_seen(answer: AnswerState) -> None:
    notes = Notes()
    with pytest.raises(ValueError, match="no more"):
        _ = [event async for event in written(answer, notes, fails=True)]
    assert notes.seen == ["begun", "", "over"]
