"""A bounded target tells no more than it may, and as much as it may; bounds add up and convert."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

from dragon.sampling.noise import Floats
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import (
    DELTA,
    Budget,
    bounded,
    divergence,
    drawn,
    epsilon_of,
    order_for,
    rdp_within,
)
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.truncation import nucleus

V = 40


def wire(rng: np.random.Generator, size: int, sharp: float) -> WireDistribution:
    ids = np.sort(rng.choice(V, size, replace=False))
    weights = np.exp(sharp * rng.standard_normal(size))
    return WireDistribution.of(ids, np.maximum(1, np.rint(weights / weights.sum() * 60_000)))


def reference(
    private: WireDistribution,
    bare: WireDistribution,
    cloud: WireDistribution,
    sampling: Sampling,
    share: float,
) -> Floats:
    """The target's distribution float64 [V], token by token."""
    b, p, c = ([int(w.dense(V)[v]) / w.total for v in range(V)] for w in (bare, private, cloud))
    public = [b[v] + c[v] for v in range(V)]
    inside = [v for v in range(V) if public[v] > 0]
    if sampling.top_p < 1.0:
        weights = np.rint(np.array([public[v] for v in inside]) * (1 << 40)).astype(np.int64)
        inside = nucleus(np.array(inside), weights, sampling.top_p)[0].tolist()
    said = {v: p[v] if b[v] > 0 else 0.0 for v in inside}
    mass = sum(b[v] for v in inside)
    r = {}
    for v in inside:
        with_passages = mass * said[v] + (1 - sum(said.values())) * b[v]
        r[v] = share * with_passages + (1 - share) * b[v]
    powers = {v: max(0.0, r[v] + c[v]) ** (1 / sampling.temperature) for v in inside}
    total = sum(powers.values())
    return np.array([powers.get(v, 0.0) / total for v in range(V)])


def renyi(p: Floats, q: Floats, order: float) -> float:
    terms = [p[v] ** order * q[v] ** (1 - order) for v in range(V) if q[v] > 0]
    return math.log(sum(terms)) / (order - 1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("top_p", [1.0, 0.7])
def test_the_largest_share_that_is_allowed(temperature: float, top_p: float) -> None:
    rng = np.random.default_rng(7)
    sampling = Sampling(temperature=temperature, top_p=top_p)
    limited = 0
    for _ in range(60):
        private, bare, cloud = wire(rng, 6, 3.0), wire(rng, 25, 1.5), wire(rng, 15, 2.0)
        order, allowance = float(rng.uniform(1.5, 30)), float(10 ** rng.uniform(-4, 0.5))
        found = bounded(private, bare, cloud, sampling, order, allowance)
        expected = reference(private, bare, cloud, sampling, found.share)
        dense = np.zeros(V)
        dense[found.ids] = np.exp(found.log_p)
        np.testing.assert_allclose(dense, expected, atol=1e-9)
        without = reference(private, bare, cloud, sampling, 0.0)
        cost = max(renyi(expected, without, order), renyi(without, expected, order))
        assert cost == pytest.approx(found.cost, rel=1e-6, abs=1e-9)
        assert found.cost <= allowance
        # What can be drawn does not depend on the passages.
        assert set(found.ids) == set(np.flatnonzero(without))
        if 0.0 < found.share < 1.0:
            limited += 1
            more = reference(private, bare, cloud, sampling, min(1.0, found.share * 1.01 + 1e-6))
            with np.errstate(divide="ignore"):
                there = divergence(np.log(more[found.ids]), np.log(without[found.ids]), order)
                back = divergence(np.log(without[found.ids]), np.log(more[found.ids]), order)
            assert max(there, back) > allowance
    assert limited > 10


def test_nothing_is_allowed() -> None:
    rng = np.random.default_rng(1)
    sides = wire(rng, 6, 3.0), wire(rng, 25, 1.5), wire(rng, 15, 2.0)
    found = bounded(*sides, Sampling(), 4.0, 0.0)
    assert (found.share, found.cost) == (0.0, 0.0)
    np.testing.assert_allclose(np.exp(found.log_p).sum(), 1.0)


def test_passages_that_say_what_is_said_without_them_cost_nothing() -> None:
    rng = np.random.default_rng(2)
    bare, cloud = wire(rng, 25, 1.5), wire(rng, 15, 2.0)
    found = bounded(bare, bare, cloud, Sampling(), 4.0, 0.01)
    assert found.share == 1.0
    assert found.cost == pytest.approx(0.0, abs=1e-12)


def test_draws_follow_the_distribution_and_the_key() -> None:
    ids = np.array([3, 11, 12, 30])
    p = np.array([0.5, 0.3, 0.15, 0.05])
    draws = [drawn(ids, np.log(p), b"a secret" * 4, position) for position in range(20_000)]
    counts = Counter(draws)
    for token, chance in zip(ids, p, strict=True):
        error = 5 * math.sqrt(chance * (1 - chance) / len(draws))
        assert counts[int(token)] / len(draws) == pytest.approx(chance, abs=error)
    again = [drawn(ids, np.log(p), b"a secret" * 4, position) for position in range(100)]
    assert again == draws[:100]
    other = [drawn(ids, np.log(p), b"another " * 4, position) for position in range(100)]
    assert other != draws[:100]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 16.0])
def test_an_epsilon_is_spent_whole(epsilon: float) -> None:
    budget = Budget.of(epsilon, tokens=20)
    assert epsilon_of(budget.order, budget.total) == pytest.approx(epsilon)
    assert budget.epsilon == 0.0
    for _ in range(20):
        assert budget.allowance == pytest.approx(budget.total / 20)
        budget.charge(budget.allowance)
    assert budget.epsilon == pytest.approx(epsilon)
    assert budget.allowance == pytest.approx(0.0, abs=1e-12)


def test_the_order_is_the_best_there_is() -> None:
    for epsilon in (1.0, 4.0, 16.0):
        best = order_for(epsilon)
        value = rdp_within(best, epsilon) / best
        assert value > 0.0
        for order in np.linspace(1.5, 200.0, 400):
            assert rdp_within(order, epsilon) / order <= value * 1.01


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 50), (1.0, 20), (4.0, 10), (16.0, 3)])
def test_a_composed_mechanism_keeps_its_promise(epsilon: float, rounds: int) -> None:
    """Randomised answers whose privacy loss is known exactly: the hockey-stick divergence."""
    order = order_for(epsilon)
    share = rdp_within(order, epsilon) / rounds

    def rdp(bias: float) -> float:
        one, two = (np.log(np.array([0.5 + b, 0.5 - b])) for b in (bias, -bias))
        return max(divergence(one, two, order), divergence(two, one, order))

    low, high = 0.0, 0.499
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rdp(middle) <= share else (low, middle)
    counts = np.arange(rounds + 1)
    with_it, without = (binom.pmf(counts, rounds, 0.5 + b) for b in (low, -low))
    leaked = np.maximum(0.0, with_it - math.exp(epsilon) * without).sum()
    assert leaked <= DELTA
    # And not by far too much: half of the epsilon is not kept.
    assert np.maximum(0.0, with_it - math.exp(epsilon / 2) * without).sum() > DELTA
