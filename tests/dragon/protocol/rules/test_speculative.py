"""Speculative aggregation: one text whoever aggregates, and never two who do.

Algorithm 1: distributed as the mixture, drafts as their sides, each independent of the rest.
Covers `dragon.sampling.role`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from dragon.errors import InvalidRequestError
from dragon.protocol.messages import Draft, Join, Limits, Resync, Target
from dragon.protocol.rules.speculative import Speculative, algorithm1_draft, algorithm1_target
from dragon.protocol.session import Session
from dragon.sampling.mixture import ETA_ONE, Side, device_weight, mixture
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from tests.dragon.protocol.fire import rule_of
from tests.dragon.protocol.toy import END, VOCABULARY, World, reference, toy_side

LIMITS = Limits(frozenset({END}), 12)


@settings(max_examples=200)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.sampled_from([1, 3, 64]),
)
def test_the_text_is_the_references_whoever_aggregates(
    seed: int, temperature: float, likeness: float, window: int
) -> None:
    sampling = Sampling(temperature=temperature, seed=seed % 16)
    joint = [(0, LIMITS.tokens)]
    expected = reference(sampling, LIMITS, joint, likeness, speculative=True)
    world = World(
        seed,
        sampling,
        LIMITS,
        rule=rule_of(Speculative, seed, certificates=False),
        window=window,
        likeness=likeness,
    )
    assert world.run() == expected
    world.drain()
    assert world.cloud.committed == expected
    assert (world.stalls, world.resyncs) == (0, 0)


@pytest.mark.parametrize("number", range(20))
def test_each_position_has_one_target_from_the_side_named_before(number: int) -> None:
    world = World(
        number,
        Sampling(temperature=1.0, seed=number),
        LIMITS,
        rule=rule_of(Speculative, number, certificates=False),
        window=4,
    )
    aggregator = world.device.rule.first
    text = world.run()
    world.drain()
    targets = [(to, m) for to, m in world.delivered if isinstance(m, Target)]
    # In the order of their positions, whichever channel they came by.
    targets.sort(key=lambda pair: pair[1].position)
    assert [m.token for _, m in targets] == text
    for to, message in targets:
        assert to is not aggregator
        aggregator = message.next


@pytest.mark.parametrize(
    "sampling",
    [Sampling(temperature=0.7), Sampling(top_p=0.9), Sampling(top_k=3), Sampling(min_p=0.1)],
)
def test_samplings_that_algorithm_1_does_not_know_are_refused(sampling: Sampling) -> None:
    with pytest.raises(InvalidRequestError, match="coupled takes any"):
        Session(Role.DEVICE, sampling, LIMITS, Speculative)


def ready_cloud() -> Session:
    """A cloud with its first draft and the device's in hand, which does not aggregate."""
    cloud = Session(Role.CLOUD, Sampling(temperature=0.0), LIMITS, Speculative)
    device = Session(
        Role.DEVICE, Sampling(temperature=0.0), LIMITS, partial(Speculative, first=Role.CLOUD)
    )
    for session in (cloud, device):
        assert session.next_work() is not None
        session.complete([toy_side(session.role, ())])
    cloud.take_outbox()
    (draft,) = device.take_outbox()
    cloud.receive(draft)
    assert cloud.committed == []
    return cloud


@pytest.mark.parametrize(
    "change",
    [
        {"position": 1},
        {"device_kept": False, "cloud_kept": False},
        {"token": 23},
    ],
)
def test_a_target_that_does_not_fit_asks_for_a_resync(change: dict[str, int]) -> None:
    cloud = ready_cloud()
    token = toy_side(Role.CLOUD, ()).wire.ids[0]
    fields = {"position": 0, "token": int(token), "device_kept": True, "cloud_kept": True}
    cloud.receive(Target(0, **(fields | change), next=Role.DEVICE))  # type: ignore[arg-type]
    assert cloud.take_outbox() == [Resync(0)]
    assert cloud.committed == []


def test_nobody_elses_word_is_taken_for_the_text() -> None:
    """A peer that names any token it likes, with verdicts that fit, is not believed."""
    cloud = ready_cloud()
    cloud.receive(Target(0, 0, VOCABULARY + 5, False, False, Role.DEVICE))
    assert cloud.take_outbox() == [Resync(0)]
    assert cloud.committed == []


def test_a_draft_that_its_side_cannot_have_drawn_is_a_desync() -> None:
    device = Session(Role.DEVICE, Sampling(), LIMITS, Speculative)
    side = toy_side(Role.CLOUD, ())
    device.receive(Draft(0, 0, 0, 0, 0, VOCABULARY + 5, 0, side))
    (join,) = device.take_outbox()
    assert isinstance(join, Join)
    assert device.joint


def test_a_target_sent_to_the_side_that_aggregates_is_a_desync() -> None:
    cloud = Session(Role.CLOUD, Sampling(), LIMITS, partial(Speculative, first=Role.CLOUD))
    cloud.receive(Target(0, 0, 3, True, True, Role.CLOUD))
    assert cloud.take_outbox() == [Resync(0)]


# Algorithm 1.

DRAWS = 4_000
PAIRS = 8
# Chance that any of the chi-square tests rejects a right distribution, fixed beforehand.
FALSE_ALARM = 1e-6
SAMPLING = Sampling(temperature=1.0, seed=3)


def side(chance: np.random.Generator, vocabulary: int = 12) -> Side:
    ids = np.sort(chance.choice(vocabulary, int(chance.integers(2, 9)), replace=False))
    weights = chance.integers(SCALE // 100, SCALE // 10, len(ids))
    return Side(WireDistribution.of(ids, weights), int(chance.integers(-1500, 1500)))


def draw(device: Side, cloud: Side, position: int) -> tuple[int, int, int]:
    """Both drafts and the target of a position."""
    one = algorithm1_draft(Role.DEVICE, device, SAMPLING, position)
    other = algorithm1_draft(Role.CLOUD, cloud, SAMPLING, position)
    return one, other, algorithm1_target((one, other), device, cloud, SAMPLING, position)


def fits(drawn: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> bool:
    assert set(drawn) <= set(ids.tolist())
    expected = weights / weights.sum() * len(drawn)
    counts = np.array([(drawn == token).sum() for token in ids])
    return bool(stats.chisquare(counts, expected).pvalue > FALSE_ALARM / (3 * PAIRS))


def test_drafts_and_targets_are_distributed_as_the_paper_says() -> None:
    """DRAGON, arXiv 2504.11197; how often the device's are kept: Eq. 5, with gamma 1/2."""
    chance = np.random.default_rng(20)
    for _ in range(PAIRS):
        device, cloud = side(chance), side(chance)
        drawn = np.array([draw(device, cloud, position) for position in range(DRAWS)])
        assert fits(drawn[:, 0], device.wire.ids, device.wire.weights)
        assert fits(drawn[:, 1], cloud.wire.ids, cloud.wire.weights)
        assert fits(drawn[:, 2], *mixture(device, cloud))
        p, q = np.zeros(12), np.zeros(12)
        p[device.wire.ids] = device.wire.weights / device.wire.total
        q[cloud.wire.ids] = cloud.wire.weights / cloud.wire.total
        eta = device_weight(device.log_h, cloud.log_h) / ETA_ONE
        delta = 1.0 - np.minimum(p, q).sum()
        expected = 0.5 * (1.0 - (1.0 - eta) * delta) + 0.5 * (p * (eta * p + (1 - eta) * q)).sum()
        kept = int((drawn[:, 0] == drawn[:, 2]).sum())
        assert stats.binomtest(kept, DRAWS, expected).pvalue > FALSE_ALARM / PAIRS


def test_drafts_of_the_same_distribution_are_independent() -> None:
    one = side(np.random.default_rng(22))
    drawn = np.array([draw(one, one, position) for position in range(DRAWS)])
    p = one.wire.weights / one.wire.total
    expected = np.outer(p, p).ravel() * DRAWS
    at = np.searchsorted(one.wire.ids, drawn[:, :2])
    counts = np.bincount(at[:, 0] * len(p) + at[:, 1], minlength=len(expected))
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


def test_greedy_takes_the_argmax_of_the_mixture() -> None:
    chance = np.random.default_rng(23)
    greedy = Sampling(temperature=0.0)
    for position in range(200):
        device, cloud = side(chance), side(chance)
        one = algorithm1_draft(Role.DEVICE, device, greedy, position)
        other = algorithm1_draft(Role.CLOUD, cloud, greedy, position)
        ids, weights = mixture(device, cloud)
        found = algorithm1_target((one, other), device, cloud, greedy, position)
        assert found == ids[np.argmax(weights)]
