"""The fleet on paper: what can be said of it with a pencil, and that nothing is lost in it."""

from __future__ import annotations

import math

import pytest

from bench.simulation.fleet import Costs, Fleet, Outcome, Simulation

COSTS = Costs(opening_s=0.05, turn_s=0.003, token_s=0.001)


def test_an_answer_alone_takes_its_opening_and_its_turns() -> None:
    fleet = Fleet(devices=1, every_s=1000.0, replicas=1, tokens=100, device_s=0.0)
    outcome = Simulation(fleet, COSTS).run(100_000.0)
    assert outcome.whole == 1.0
    assert outcome.first_s()[0] == pytest.approx(0.05 + 0.004)
    assert outcome.token_s()[0] == pytest.approx(0.004)
    # Of the time, each of some hundred answers works 0.45 s.
    assert outcome.busy == pytest.approx(len(outcome.ended) * 0.45 / 100_000, rel=0.01)


def test_a_slow_device_is_what_an_answer_waits_for() -> None:
    fleet = Fleet(devices=1, every_s=1000.0, replicas=1, tokens=100, device_s=0.03)
    assert Simulation(fleet, COSTS).run(10_000.0).token_s()[0] == pytest.approx(0.03)


def test_answers_at_once_share_turns() -> None:
    simulation = Simulation(Fleet(10, 1e9, 1, tokens=1000, device_s=0.0), COSTS)
    for device in range(10):
        simulation.ask(device, until=0.0)
    outcome = simulation.run(0.0)
    assert len(outcome.ended) == 10
    # A turn of ten, but for those in which the others were opened or have ended.
    assert outcome.token_s()[5] == pytest.approx(0.003 + 10 * 0.001, rel=0.1)


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet(200, 20.0, 2, failing_s=30.0, restart_s=5.0),
        Fleet(200, 20.0, 2, places=4),
        Fleet(50, 5.0, 1, places=2, failing_s=20.0, restart_s=10.0),
    ],
)
def test_no_answer_is_lost_whatever_fails(fleet: Fleet) -> None:
    outcome = Simulation(fleet, COSTS).run(200.0)
    assert outcome.counts["asked"] == len(outcome.ended) > 1000
    assert len({id(answer) for answer in outcome.ended}) == len(outcome.ended)
    for answer in outcome.ended:
        assert answer.written == fleet.tokens >= answer.joint
        assert answer.first is not None
        assert answer.asked <= answer.first <= answer.last
    assert outcome.whole < 1.0
    assert outcome.counts["rejoined"] + outcome.counts["refused"] > 0


def test_more_replicas_are_less_busy_and_refuse_less() -> None:
    def of(replicas: int) -> Outcome:
        return Simulation(Fleet(200, 20.0, replicas, places=4), COSTS).run(200.0)

    few, many = of(1), of(20)
    assert many.counts["refused"] < few.counts["refused"]
    assert many.busy < few.busy < 1.0
    assert few.whole < many.whole


def test_the_same_seed_gives_the_same_fleet() -> None:
    fleet = Fleet(50, 5.0, 2, failing_s=20.0, restart_s=5.0)
    one, other, another = (Simulation(fleet, COSTS, seed).run(100.0) for seed in (1, 1, 2))
    assert one.counts == other.counts != another.counts
    assert one.token_s() == other.token_s()
    assert math.isfinite(sum(one.first_s()))
