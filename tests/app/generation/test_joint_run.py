"""What the cloud is asked, and the clock of an answer: what it says of it, moment by moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.generation.events import GenerationRequest
from app.generation.joint_run import Failure, Lateness, Seen
from app.generation.plan import Plan, opening
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace

BEGUN = Seen(
    now=0.0, written=0, busy=False, joint=True, ready=False, held=False, received=0.0, resyncs=0,
    sharing=1,
)  # fmt: skip
READY = replace(BEGUN, ready=True)
TICK_S = 0.125


def lateness(deadline: float | None = 2.0, *, bounded: bool = True) -> Lateness:
    return Lateness(0.0, deadline, Pace(LinkMeter(), DecodeDelay()), bounded=bounded)


def first(
    clock: Lateness, seen: Seen, *, talks: bool = True, a_token_s: float = 1e9
) -> tuple[Failure, float] | None:
    """The first failure within a minute, and by when there was none yet.

    If it `talks` something comes all the while.
    """
    for tick in range(1, 481):
        now = tick * TICK_S
        written, received = int(now / a_token_s), now if talks else 0.0
        moment = replace(seen, now=now, written=written, received=received)
        if (found := clock.look(moment)) is not None:
            return found, now - TICK_S
    return None


def test_a_cloud_that_has_found_nothing_by_the_deadline_is_late() -> None:
    assert first(lateness(), BEGUN) == (Failure.LATE, 2.0)


def test_an_answer_held_for_want_of_room_waits_as_long() -> None:
    assert first(lateness(), replace(BEGUN, joint=False, held=True)) == (Failure.LATE, 2.0)


def test_beside_many_answers_it_has_more_time() -> None:
    assert first(lateness(), replace(BEGUN, sharing=12)) == (Failure.LATE, 6.0)


def test_without_a_deadline_it_is_never_late_nor_silent_before_it_has_found_anything() -> None:
    assert first(lateness(None), BEGUN, talks=False) is None


def test_a_connection_on_which_nothing_comes_is_silent() -> None:
    assert first(lateness(), READY, talks=False) == (Failure.SILENT, 1.0)


def test_one_that_talks_and_agrees_on_nothing_stalls_and_may_then_take_twice_as_long() -> None:
    clock = lateness()
    assert first(clock, READY) == (Failure.STALLED, 1.0)
    assert clock.look(replace(READY, now=2.5, received=2.5, resyncs=1)) is None
    again = replace(READY, now=3.2, received=3.2, resyncs=1)
    assert clock.look(again) is Failure.STALLED


def test_one_that_goes_on_too_slowly_is_too_slow_unless_nobody_reads_along() -> None:
    found = first(lateness(), READY, a_token_s=0.9)
    assert found is not None
    assert found[0] is Failure.SLOW
    assert first(lateness(), READY, a_token_s=0.4) is None
    assert first(lateness(bounded=False), READY, a_token_s=0.9) is None


def test_while_the_engine_is_busy_nobody_waits() -> None:
    assert first(lateness(), replace(READY, busy=True)) is None


def test_an_answer_without_the_cloud_waits_for_nothing() -> None:
    assert first(lateness(), replace(BEGUN, joint=False), talks=False) is None


def test_the_cloud_is_asked_only_with_what_it_is_given() -> None:
    request = GenerationRequest((20, 21, 22), "q", cloud_conversation=(22,))
    plan = Plan(0, None, catch_up=False, rescore_every=0, slope=0)
    with pytest.raises(AssertionError):
        opening(request, plan, (), 0, joint=True)
    assert opening(request.given(), plan, (), 0, joint=True).conversation == (22,)
