"""The target: equal to a slow exact reference, distributed as the mixture, kind to agreement."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from dragon.sampling import noise
from dragon.sampling.mixture import (
    ETA_MIN,
    ETA_ONE,
    LOG_H_LIMIT,
    LOG_H_STEPS,
    Side,
    choose,
    device_weight,
    draft,
    fixed_log_h,
    mixture,
    target,
)
from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import SCALE, WireDistribution

DRAWS = 20_000
PAIRS = 20
# Chance that any of the chi-square tests rejects a right distribution, fixed beforehand.
FALSE_ALARM = 1e-6

Weights = dict[int, Fraction]

log_hs = st.integers(-LOG_H_LIMIT, LOG_H_LIMIT) | st.integers(-3000, 3000)
temperatures = st.sampled_from([0.0, 1e-6, 0.3, 1.0, 2.0]) | st.floats(0.0, 2.0)


@st.composite
def sides(draw: st.DrawFn, vocabulary: int = 12) -> Side:
    ids = sorted(draw(st.sets(st.integers(0, vocabulary - 1), min_size=1)))
    weight = st.integers(1, 4) | st.integers(1, SCALE // vocabulary)
    weights = draw(st.lists(weight, min_size=len(ids), max_size=len(ids)))
    return Side(WireDistribution.of(ids, weights), draw(log_hs))


top_ps = st.just(1.0) | st.floats(1e-6, 1.0)
truncating = {
    "top_p": top_ps,
    "top_k": st.integers(0, 6),
    "min_p": st.just(0.0) | st.floats(0.0, 1.0),
}


def samplings(**truncation: st.SearchStrategy[float]) -> st.SearchStrategy[Sampling]:
    return st.builds(Sampling, temperature=temperatures, seed=st.integers(0, 1 << 40), **truncation)


# The slow reference: exact fractions, one token at a time.


def share(side: Side) -> Weights:
    pairs = zip(side.wire.ids.tolist(), side.wire.weights.tolist(), strict=True)
    return {token: Fraction(weight, side.wire.total) for token, weight in pairs}


def slow_mixture(device: Side, cloud: Side) -> Weights:
    eta = Fraction(device_weight(device.log_h, cloud.log_h), ETA_ONE)
    d, c = share(device), share(cloud)
    mixed = {t: eta * d.get(t, 0) + (1 - eta) * c.get(t, 0) for t in sorted({*d, *c})}
    return {token: weight for token, weight in mixed.items() if weight > 0}


def slow_truncated(weights: Weights, sampling: Sampling) -> Weights:
    """`min_p`, then `top_k`, then `top_p`: the heaviest first, one token at a time."""
    least = Fraction(round(sampling.min_p * 65536), 65536) * max(weights.values())
    ranked = sorted(weights, key=lambda t: (-weights[t], t))
    ranked = [token for token in ranked if weights[token] >= least]
    ranked = ranked[: sampling.top_k or None]
    needed = Fraction(max(1, round(sampling.top_p * 65536)), 65536)
    needed *= sum(weights[token] for token in ranked)
    kept: Weights = {}
    for token in ranked:
        if sum(kept.values()) >= needed:
            break
        kept[token] = weights[token]
    return kept


def slow_choose(weights: Weights, sampling: Sampling, position: int) -> int:
    best, best_score = -1, -math.inf
    for token, weight in sorted(slow_truncated(weights, sampling).items()):
        score = float(weight)
        if sampling.temperature > 0.0:
            ids = np.array([token], dtype=np.int64)
            gumbel = noise.gumbel(sampling.seed, sampling.stream, position, ids)[0]
            score = math.log(weight) + sampling.temperature * float(gumbel)
        if score > best_score:
            best, best_score = token, score
    return best


@given(sides(), sides())
def test_mixture_equals_the_reference(device: Side, cloud: Side) -> None:
    ids, weights = mixture(device, cloud)
    assert (np.diff(ids) > 0).all()
    assert int(weights.sum()) < 1 << 51
    scale = ETA_ONE * device.wire.total * cloud.wire.total
    got = {t: Fraction(w, scale) for t, w in zip(ids.tolist(), weights.tolist(), strict=True)}
    assert got == slow_mixture(device, cloud)
    assert sum(got.values()) == 1


@given(sides(), sides(), samplings(**truncating), st.integers(0, 1 << 16))
def test_target_and_draft_equal_the_reference(
    device: Side, cloud: Side, sampling: Sampling, position: int
) -> None:
    weights = slow_mixture(device, cloud)
    assert target(device, cloud, sampling, position) == slow_choose(weights, sampling, position)
    assert draft(device, sampling, position) == slow_choose(share(device), sampling, position)


@pytest.mark.parametrize("temperature", [1e-9, 1e-6, 0.7, 2.0])
@pytest.mark.parametrize("most", [1, 3, 1 << 17])
def test_a_choice_among_many_is_that_of_the_portable_logarithms(
    temperature: float, most: int
) -> None:
    """Steep, flat and all equal: then thousands are within the fast logarithms' doubt."""
    chance = np.random.default_rng(most)
    ids = np.flatnonzero(chance.random(12_000) < 0.3)
    weights = chance.integers(1, most, len(ids), endpoint=True)
    for position in range(20):
        sampling = Sampling(temperature=temperature, seed=5)
        gumbel = noise.gumbel(sampling.seed, sampling.stream, position, ids)
        scores = noise.log(weights.astype(np.float64)) + temperature * gumbel
        assert choose(ids, weights, sampling, position) == ids[np.argmax(scores)]


def test_mixture_at_the_bounds_is_exact() -> None:
    heavy = Side(WireDistribution.of([0, 1], [2 * SCALE - 1, 1]), LOG_H_LIMIT)
    light = Side(WireDistribution.of([1, 2], [1, 2 * SCALE - 1]), -LOG_H_LIMIT)
    for device, cloud in ((heavy, light), (light, heavy), (heavy, heavy), (light, light)):
        ids, weights = mixture(device, cloud)
        exact = slow_mixture(device, cloud)
        scale = ETA_ONE * device.wire.total * cloud.wire.total
        assert [Fraction(int(w), scale) for w in weights] == list(exact.values())
        assert ids.tolist() == list(exact)
        assert (weights.astype(np.float64).astype(np.int64) == weights).all()


# The weight of the device.


@given(log_hs, log_hs)
def test_eta_is_the_share_of_h(device: int, cloud: int) -> None:
    exact = ETA_ONE / (1 + math.exp((cloud - device) / LOG_H_STEPS))
    eta = device_weight(device, cloud)
    least = ETA_MIN if device > -LOG_H_LIMIT else 0
    assert least <= eta <= ETA_ONE
    assert abs(eta - max(least, exact)) <= 0.5 + 1e-6


def test_eta_at_its_ends() -> None:
    assert device_weight(0, 0) == ETA_ONE // 2
    assert device_weight(LOG_H_LIMIT, -LOG_H_LIMIT) == ETA_ONE
    assert device_weight(1 - LOG_H_LIMIT, LOG_H_LIMIT) == ETA_MIN
    assert device_weight(-LOG_H_LIMIT, LOG_H_LIMIT) == 0  # it has no say


def test_log_h_on_the_wire() -> None:
    assert fixed_log_h(0.0) == 0
    assert fixed_log_h(1.5) == 1536
    assert fixed_log_h(-1e9) == -LOG_H_LIMIT
    assert fixed_log_h(1e9) == LOG_H_LIMIT


def test_a_cloud_that_claims_everything_does_not_silence_the_device() -> None:
    device = Side(WireDistribution.of([3], [SCALE]), 1 - LOG_H_LIMIT)
    cloud = Side(WireDistribution.of([5], [SCALE]), LOG_H_LIMIT)
    ids, weights = mixture(device, cloud)
    assert ids.tolist() == [3, 5]
    assert weights[0] / weights.sum() == pytest.approx(1 / 50, rel=1e-3)


# The distribution of the target.


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draws(ids: Ids, weights: Ids, sampling: Sampling, count: int) -> Ids:
    """`choose` at positions 0 to `count`, all at once; the first are checked against it."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = mix(np.array([sampling.seed], dtype=np.uint64) + golden)
        key = mix(key ^ mix(np.array([sampling.stream + 1], dtype=np.uint64)))
        keys = mix(key + np.arange(1, count + 1, dtype=np.uint64) * golden)
        hashed = mix(mix(keys[:, None] + (ids.astype(np.uint64) + np.uint64(1)) * golden))
    uniform = ((hashed >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    gumbel = -noise.log(-noise.log(uniform))
    scores = noise.log(weights.astype(np.float64)) + sampling.temperature * gumbel
    drawn: Ids = ids[np.argmax(scores, axis=1)]
    first = [choose(ids, weights, sampling, position) for position in range(50)]
    assert drawn[:50].tolist() == first
    return drawn


def random_side(chance: np.random.Generator, shared: NDArray[np.int64]) -> Side:
    size = int(chance.choice([1, 2, 5, 20, 60]))
    own = chance.integers(0, 8192, size)
    ids = np.unique(np.concatenate([own, shared[: chance.integers(0, len(shared) + 1)]]))
    raw = chance.dirichlet(np.full(len(ids), chance.choice([0.1, 0.5, 2.0])))
    weights = np.maximum(np.rint(raw * SCALE), 1).astype(np.int64)
    return Side(WireDistribution.of(ids, weights), int(chance.integers(-3000, 3000)))


def pooled(
    counts: NDArray[np.int64], expected: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cells by what they expect, those of the least pooled until each expects 5 or more."""
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    first = max(
        int(np.searchsorted(np.cumsum(expected), 5.0)), int(np.searchsorted(expected, 5.0)) - 1
    )
    return (
        np.concatenate([[counts[: first + 1].sum()], counts[first + 1 :]]),
        np.concatenate([[expected[: first + 1].sum()], expected[first + 1 :]]),
    )


@pytest.mark.parametrize("pair", range(PAIRS))
def test_target_is_distributed_as_the_mixture(pair: int) -> None:
    chance = np.random.default_rng(pair)
    shared = chance.integers(0, 8192, 12)
    device, cloud = random_side(chance, shared), random_side(chance, shared)
    ids, weights = mixture(device, cloud)
    sampling = Sampling(temperature=1.0, seed=1000 + pair)
    drawn = draws(ids, weights, sampling, DRAWS)
    assert [target(device, cloud, sampling, t) for t in range(20)] == drawn[:20].tolist()
    counts = np.bincount(np.searchsorted(ids, drawn), minlength=len(ids))
    expected = weights / weights.sum() * DRAWS
    counts, expected = pooled(counts, expected)
    if len(counts) > 1:
        assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM / PAIRS


def test_temperature_acts_on_the_mixture() -> None:
    """At temperature T a token is as likely as its share of the mixture to the power 1/T."""
    device = Side(WireDistribution.of([1, 2, 3], [30000, 20000, 15536]), 0)
    cloud = Side(WireDistribution.of([2, 3, 9], [5000, 30000, 30536]), 200)
    ids, weights = mixture(device, cloud)
    for temperature in (0.5, 2.0):
        sampling = Sampling(temperature=temperature, seed=5)
        drawn = draws(ids, weights, sampling, DRAWS)
        tempered = weights.astype(np.float64) ** (1 / temperature)
        counts = np.bincount(np.searchsorted(ids, drawn), minlength=len(ids))
        expected = tempered / tempered.sum() * DRAWS
        assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


# Agreement.


@given(sides(), sides(), samplings(), st.integers(0, 1 << 16))
def test_a_token_both_sides_draft_is_the_target(
    device: Side, cloud: Side, sampling: Sampling, position: int
) -> None:
    both = draft(device, sampling, position)
    if both == draft(cloud, sampling, position):
        assert target(device, cloud, sampling, position) == both


@given(sides(), sides(), samplings(), st.integers(0, 1 << 16))
def test_equal_distributions_always_agree(
    one: Side, other: Side, sampling: Sampling, position: int
) -> None:
    twin = Side(one.wire, other.log_h)
    token = draft(one, sampling, position)
    assert token == draft(twin, sampling, position) == target(one, twin, sampling, position)


@pytest.mark.parametrize("pair", range(8))
def test_drafts_agree_as_often_as_promised(pair: int) -> None:
    """At T = 1 with probability at least (1 - TV) / (1 + TV), up to the error of sampling."""
    chance = np.random.default_rng(pair)
    shared = chance.integers(0, 8192, 12)
    device, cloud = random_side(chance, shared), random_side(chance, shared)
    if pair % 2:  # alike but for a disturbance
        ids, weights = device.wire.ids, device.wire.weights
        shaken = np.maximum(np.rint(weights * chance.uniform(0.5, 1.0, len(ids))), 1)
        cloud = Side(WireDistribution.of(ids, shaken.astype(np.int64)), 0)
    d, c = share(device), share(cloud)
    tv = float(sum(abs(d.get(t, Fraction(0)) - c.get(t, Fraction(0))) for t in {*d, *c}) / 2)
    promised = (1 - tv) / (1 + tv)
    sampling = Sampling(temperature=1.0, seed=pair)
    ours, theirs = (
        draws(side.wire.ids, side.wire.weights, sampling, DRAWS) for side in (device, cloud)
    )
    agreed = float((ours == theirs).mean())
    error = math.sqrt(promised * (1 - promised) / DRAWS)
    assert agreed >= promised - stats.norm.isf(FALSE_ALARM / 8) * error - 1e-9


# top_p and temperature 0.


@given(sides(), sides(), st.integers(0, 1 << 40), st.integers(0, 1 << 16))
def test_temperature_is_continuous_at_zero(
    device: Side, cloud: Side, seed: int, position: int
) -> None:
    weights = slow_mixture(device, cloud)
    cold = target(device, cloud, Sampling(temperature=0.0, seed=seed), position)
    assert weights[cold] == max(weights.values())
    heaviest, *others = sorted(weights.values(), reverse=True)
    if not others or heaviest > others[0]:
        # |G| < 40, so no noise overcomes a relative difference of 1e-9 at this temperature.
        if not others or float(heaviest / others[0]) > 1 + 1e-9:
            cool = target(device, cloud, Sampling(temperature=1e-12, seed=seed), position)
            assert cool == cold
    else:
        assert cold == min(token for token, weight in weights.items() if weight == heaviest)
