"""The scheduler: the formulas of DRAGON, arXiv 2504.11197, and plays against a plain loop."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dragon.protocol.aggregator_policy import (
    Aggregated,
    Conditions,
    Schedule,
    Scheduler,
    delta_z,
    expected_acceptance,
    latency,
)
from dragon.sampling.mixture import ETA_ONE, Side, device_weight
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role

SYMMETRIC = Conditions(0.05, 0.05, 0.3, 0.6, 0.6)


def drawn(chance: random.Random) -> Conditions:
    delays = [chance.choice((0.0, chance.random())) for _ in range(3)]
    return Conditions(*delays, chance.random(), chance.random())


def test_latency_is_that_of_the_published_example() -> None:
    assert latency(Role.DEVICE, Conditions(0.13, 0.02, 0.3, 0.5, 0.8)) == pytest.approx(0.168)


def side(chance: np.random.Generator, size: int, vocabulary: int) -> Side:
    ids = np.sort(chance.choice(vocabulary, size, replace=False))
    weights = chance.integers(1, 1 << 10, size)
    return Side(WireDistribution.of(ids, weights), int(chance.integers(-2048, 2048)))


def algorithm_1(device: Side, cloud: Side) -> tuple[float, float]:
    """Acceptances by adding up every outcome of Algorithm 1."""
    size = int(max(device.wire.ids[-1], cloud.wire.ids[-1])) + 1
    p = []
    for one in (device, cloud):
        p.append(np.zeros(size))
        p[-1][one.wire.ids] = one.wire.weights / one.wire.total
    eta = device_weight(device.log_h, cloud.log_h) / ETA_ONE
    accepted = [0.0, 0.0]

    def sampled(x: int, a: int) -> np.ndarray:
        """How Sample(x, p^a, p^b, eta^b) is distributed."""
        b = 1 - a
        result = np.zeros(size)
        if p[a][x] <= p[b][x]:
            result[x] = 1.0
            return result
        rejection = (1 - eta if a == 0 else eta) * (1 - p[b][x] / p[a][x])
        left = np.maximum(0, p[b] - p[a])
        result[x] = 1 - rejection
        return result + rejection * left / left.sum()

    for x in range(size):
        for y in range(size):
            target = 0.5 * sampled(x, 0) + 0.5 * sampled(y, 1) if p[0][x] * p[1][y] else None
            if target is not None:
                accepted[0] += p[0][x] * p[1][y] * target[x]
                accepted[1] += p[0][x] * p[1][y] * target[y]
    return accepted[0], accepted[1]


@pytest.mark.parametrize("seed", range(8))
def test_expected_acceptance_is_that_of_algorithm_1(seed: int) -> None:
    chance = np.random.default_rng(seed)
    device, cloud = (side(chance, int(chance.integers(1, 9)), 12) for _ in range(2))
    assert expected_acceptance(device, cloud) == pytest.approx(algorithm_1(device, cloud))


def test_a_side_like_the_other_is_rejected_only_by_independence() -> None:
    same = Side(WireDistribution.of([3, 7], [1, 3]), 0)
    expected = 0.5 + 0.5 * (0.25**2 + 0.75**2)
    assert expected_acceptance(same, same) == pytest.approx((expected, expected))


def test_a_side_without_any_weight_is_rejected_unless_it_agrees() -> None:
    device = Side(WireDistribution.of([3], [5]), 60 * 1024)
    cloud = Side(WireDistribution.of([7, 9], [1, 1]), -60 * 1024)
    assert expected_acceptance(device, cloud) == pytest.approx((1.0, 0.0))


def test_fixed_schedules_stay() -> None:
    for schedule, role in ((Schedule.DEVICE, Role.DEVICE), (Schedule.CLOUD, Role.CLOUD)):
        scheduler = Scheduler(schedule, 0)
        assert scheduler.first is role
        worst = Aggregated(role is Role.DEVICE, role is Role.CLOUD, 0, 0)
        assert scheduler.next(role, SYMMETRIC, worst) is role


def test_random_is_seeded_and_takes_both() -> None:
    runs = [
        [scheduler.next(Role.DEVICE, None) for _ in range(50)]
        for scheduler in (Scheduler(Schedule.RANDOM, seed) for seed in (3, 3, 4))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert set(runs[0]) == set(Role)


@pytest.mark.parametrize("schedule", [Schedule.GREEDY, Schedule.PAPER])
def test_without_conditions_the_side_stays(schedule: Schedule) -> None:
    scheduler = Scheduler(schedule, 0)
    for role in Role:
        assert scheduler.next(role, None, Aggregated(False, False, 0, 0)) is role


def test_the_papers_schedule_follows_delta_z() -> None:
    chance = random.Random(2)
    scheduler = Scheduler(Schedule.PAPER, 0)
    for _ in range(200):
        c = drawn(chance)
        switched = scheduler.next(Role.CLOUD, c, Aggregated(True, True, 0, 0)) is Role.DEVICE
        assert switched == (delta_z(Role.CLOUD, c) > 0)


def test_greedy_hands_over_to_a_rejected_remote_side() -> None:
    scheduler = Scheduler(Schedule.GREEDY, 0)
    assert scheduler.next(Role.DEVICE, SYMMETRIC, Aggregated(True, False, 3, 0)) is Role.CLOUD
    assert scheduler.next(Role.CLOUD, SYMMETRIC, Aggregated(False, True, 0, 3)) is Role.DEVICE
    assert scheduler.next(Role.DEVICE, SYMMETRIC, Aggregated(False, True, 0, 3)) is Role.DEVICE


def test_greedy_stays_where_its_own_decoding_hides_the_round_trip() -> None:
    slow_device = Conditions(0.5, 0.02, 0.1, 0.6, 0.6)
    last = Aggregated(True, False, 0, 0)
    assert Scheduler(Schedule.GREEDY, 0).next(Role.DEVICE, slow_device, last) is Role.DEVICE
