"""The fast target equals the slow one, and a judgement is target, drafts and distance at once."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragon.protocol.messages import MAX_WINDOW, Draft
from dragon.protocol.rules.shared_noise import TargetCache
from dragon.protocol.state import Agreement
from dragon.sampling import mixture
from dragon.sampling.mixture import Race, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import SCALE, WireDistribution, cut
from dragon.sampling.role import Role
from tests.dragon.sampling.test_mixture import samplings, sides, truncating

positions = st.integers(0, 1000)


def both(device: Side, cloud: Side, sampling: Sampling, position: int) -> tuple[Race, Race]:
    return Race.run(device, sampling, position), Race.run(cloud, sampling, position)


@given(sides(), sides(), samplings(), positions)
def test_target_and_drafts_are_those_of_the_slow_ones(
    device: Side, cloud: Side, sampling: Sampling, position: int
) -> None:
    races = both(device, cloud, sampling, position)
    expected = mixture.target(device, cloud, sampling, position)
    assert mixture.raced_target(*races, sampling, position) == expected
    for side, run in zip((device, cloud), races, strict=True):
        assert mixture.raced_draft(run, sampling, position) == mixture.draft(
            side, sampling, position
        )


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_large_nuclei(temperature: float, spread: float) -> None:
    """Flat ones too, where thousands are as likely as each other."""
    chance = np.random.default_rng(int(10 * spread))
    common = chance.normal(size=4000)
    for position in range(30):
        device, cloud = (
            nucleus_of(spread * (common + 0.4 * chance.normal(size=4000)), log_h)
            for log_h in chance.integers(-3000, 3000, 2)
        )
        sampling = Sampling(temperature=temperature, seed=7)
        expected = mixture.target(device, cloud, sampling, position)
        assert (
            mixture.raced_target(*both(device, cloud, sampling, position), sampling, position)
            == expected
        )


def nucleus_of(logits: np.ndarray[tuple[int], np.dtype[np.float64]], log_h: int) -> Side:
    return Side(
        cut(torch.softmax(torch.tensor(logits, dtype=torch.float32), 0).numpy()).wire, int(log_h)
    )


def test_of_equal_tokens_the_lowest_wins_whoever_has_it() -> None:
    device = Side(WireDistribution.of([5, 9], [SCALE // 2] * 2), 0)
    cloud = Side(WireDistribution.of([3, 9], [SCALE // 2] * 2), 0)
    alone = Side(WireDistribution.of([3], [SCALE]), 0)
    other = Side(WireDistribution.of([8], [SCALE]), 0)
    greedy = Sampling(temperature=0.0)
    for pair, token in (((device, cloud), 9), ((alone, other), 3), ((other, alone), 3)):
        assert mixture.raced_target(*both(*pair, greedy, 0), greedy, 0) == token


def test_a_side_without_weight_decides_nothing() -> None:
    device = Side(WireDistribution.of([5], [SCALE]), mixture.LOG_H_LIMIT)
    cloud = Side(WireDistribution.of([3], [SCALE]), -mixture.LOG_H_LIMIT)
    assert mixture.factors(device, cloud)[1] == 0
    for seed in range(50):
        sampling = Sampling(seed=seed)
        assert mixture.raced_target(*both(device, cloud, sampling, 0), sampling, 0) == 5


@given(sides(), sides(), samplings(**truncating), positions)
def test_a_judgement_is_target_drafts_and_distance_at_once(
    device: Side, cloud: Side, sampling: Sampling, position: int
) -> None:
    agreement = Agreement()
    judge = TargetCache(Role.DEVICE, sampling, agreement)
    token = mixture.target(device, cloud, sampling, position)
    drafts = [mixture.draft(side, sampling, position) for side in (device, cloud)]
    assert judge.draft(device, position) == drafts[0]
    assert judge.target(device, cloud, position) == token
    own, remote = (Draft(0, 0, position, 0, 0, token, 0, side) for side in (device, cloud))
    assert judge.judge(own, remote) == token
    assert agreement.verdicts == [(drafts[0] == token, drafts[1] == token)]
    assert agreement.tv == pytest.approx(mixture.total_variation(device, cloud))


@given(sides(), sides(), sides(), samplings())
def test_another_side_at_the_same_position_has_a_race_of_its_own(
    rejected: Side, drafted: Side, remote: Side, sampling: Sampling
) -> None:
    """A draft ahead of a rejected one is thrown away, and its position is drafted for again."""
    judge = TargetCache(Role.CLOUD, sampling, Agreement())
    judge.draft(rejected, 4)
    assert judge.draft(drafted, 4) == mixture.draft(drafted, sampling, 4)
    judge.draft(rejected, 4)
    assert judge.target(drafted, remote, 4) == mixture.target(remote, drafted, sampling, 4)


@given(sides(), sides())
def test_the_distance_is_half_the_sum_of_differences(one: Side, other: Side) -> None:
    def share(side: Side) -> dict[int, float]:
        pairs = zip(side.wire.ids.tolist(), side.wire.weights.tolist(), strict=True)
        return {token: weight / side.wire.total for token, weight in pairs}

    p, q = share(one), share(other)
    slow = sum(abs(p.get(token, 0.0) - q.get(token, 0.0)) for token in {*p, *q}) / 2
    assert mixture.total_variation(one, other) == pytest.approx(slow, abs=1e-12)


def test_races_that_nobody_judges_are_forgotten() -> None:
    """Those of a device alone, or of a cloud that is told the targets."""
    judge = TargetCache(Role.DEVICE, Sampling(), Agreement())
    chance = np.random.default_rng(3)
    sides = []
    for position in range(3 * MAX_WINDOW):
        side = nucleus_of(chance.normal(size=50), 0)
        judge.draft(side, position)
        sides.append(weakref.ref(side))
    del side
    assert sum(held() is not None for held in sides) <= MAX_WINDOW
