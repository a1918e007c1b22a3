"""Algorithm 1: distributed as the mixture, drafts as their sides, each independent of the rest.

Covers `dragon.sampling.role`.
"""

from __future__ import annotations

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from dragon.protocol.rules.speculative import Drafted, algorithm1_draft, algorithm1_target
from dragon.sampling.mixture import ETA_ONE, Side, device_weight, mixture
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role

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
    drafts = [
        algorithm1_draft(role, side, SAMPLING, position)
        for role, side in ((Role.DEVICE, device), (Role.CLOUD, cloud))
    ]
    one, other = (Drafted(*pair) for pair in zip(drafts, (device, cloud), strict=True))
    return (*drafts, algorithm1_target(one, other, SAMPLING, position))


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
        tokens = [
            algorithm1_draft(r, s, greedy, position)
            for r, s in zip(Role, (device, cloud), strict=True)
        ]
        one, other = (Drafted(*pair) for pair in zip(tokens, (device, cloud), strict=True))
        ids, weights = mixture(device, cloud)
        assert algorithm1_target(one, other, greedy, position) == ids[np.argmax(weights)]
