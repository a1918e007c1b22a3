"""Bounds add up and convert to what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

from dragon.sampling.privacy import DELTA, Budget, divergence, epsilon_of, order_for, rdp_within


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
