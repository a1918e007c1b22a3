"""The wire form: the fewest tokens that hold the mass, integer weights, and an honest account."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.sampling.quantized import NUCLEUS_CAP, NUCLEUS_MASS, SCALE, WireDistribution, cut


@st.composite
def probabilities(draw: st.DrawFn) -> list[float]:
    """float32 probabilities of 1 to 600 tokens: steep or flat, with zeros and ties."""
    size = draw(st.sampled_from([1, 2, 3, 7, 30, 600]))
    chance = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    logits = chance.normal(0.0, draw(st.sampled_from([0.0, 0.5, 3.0, 20.0])), size)
    if draw(st.booleans()):
        logits = np.round(logits)
    p = torch.softmax(torch.tensor(logits, dtype=torch.float32), 0)
    result: list[float] = p.tolist()
    return result


def slow_nucleus_size(p: list[float], mass: float, cap: int) -> int:
    """Take tokens, heaviest first, until they hold the mass."""
    held, size = 0.0, 0
    for value in sorted(p, reverse=True)[:cap]:
        if held >= mass or value == 0.0:
            break
        held += value
        size += 1
    return size


@given(
    probabilities(), st.sampled_from([0.5, 0.9, NUCLEUS_MASS, 1.0]), st.sampled_from([1, 5, 512])
)
def test_cut_keeps_the_fewest_tokens_of_the_mass(p: list[float], mass: float, cap: int) -> None:
    wire = cut(torch.tensor(p).numpy(), mass=mass, cap=cap).wire
    assert len(wire.ids) == slow_nucleus_size(p, mass, cap)
    # No token left out is heavier than one kept.
    kept = set(wire.ids.tolist())
    left_out = [value for token, value in enumerate(p) if token not in kept]
    assert max(left_out, default=0.0) <= min(p[token] for token in kept)


@given(probabilities())
def test_weights_are_the_probabilities_in_steps(p: list[float]) -> None:
    made = cut(torch.tensor(p).numpy())
    kept = sum(p[token] for token in made.wire.ids.tolist())
    assert made.mass == pytest.approx(kept, rel=1e-12)
    assert 1 <= len(made.wire.ids) <= NUCLEUS_CAP
    assert abs(made.wire.total - SCALE) <= len(made.wire.ids)
    for token, weight in zip(made.wire.ids.tolist(), made.wire.weights.tolist(), strict=True):
        exact = p[token] / kept * SCALE
        assert weight >= 1
        assert abs(weight - exact) <= (0.5 + 1e-6 if exact > 0.5 else 1.0)


@given(probabilities(), st.sampled_from([0.5, NUCLEUS_MASS, 1.0]))
def test_tv_is_the_distance_from_the_full_distribution(p: list[float], mass: float) -> None:
    made = cut(torch.tensor(p).numpy(), mass=mass)
    wire = dict(zip(made.wire.ids.tolist(), made.wire.weights.tolist(), strict=True))
    total = sum(p)
    slow = 0.5 * sum(
        abs(value / total - wire.get(token, 0) / made.wire.total) for token, value in enumerate(p)
    )
    assert made.tv == pytest.approx(slow, abs=1e-6)


def test_cut_of_a_certain_token() -> None:
    made = cut(torch.tensor([0.0, 1.0, 0.0]).numpy())
    assert made.wire == WireDistribution.of([1], [SCALE])
    assert (made.mass, made.tv) == (1.0, 0.0)


def test_cut_at_the_cap() -> None:
    made = cut(torch.full((4 * NUCLEUS_CAP,), 1 / (4 * NUCLEUS_CAP)).numpy())
    assert made.wire.ids.tolist() == list(range(NUCLEUS_CAP))  # of equals the lowest
    assert made.mass == pytest.approx(0.25)
    assert made.tv == pytest.approx(0.75)


def test_cut_leaves_improbable_tokens_one_step() -> None:
    p = torch.full((512,), 1e-7)
    p[100] = 1.0 - 511e-7
    wire = cut(p.numpy(), mass=1.0).wire
    assert wire.weights.min() == 1
    assert len(wire.ids) == 512


@pytest.mark.parametrize(
    ("ids", "weights"),
    [
        ([], []),
        ([1], []),
        ([], [1]),
        ([1, 2], [1]),
        ([-1], [1]),
        ([2, 1], [1, 1]),
        ([1, 1], [1, 1]),
        ([1], [0]),
        ([1, 2], [5, -1]),
        ([1], [2 * SCALE + 1]),
        ([1, 2], [SCALE, SCALE + 1]),
    ],
)
def test_what_is_no_distribution_is_refused(ids: list[int], weights: list[int]) -> None:
    with pytest.raises(FrameError):
        WireDistribution.of(ids, weights)


def test_a_false_total_is_refused() -> None:
    with pytest.raises(FrameError):
        WireDistribution(np.array([1, 2]), np.array([3, 4]), 8)


def test_equality_is_of_tokens_and_weights() -> None:
    assert WireDistribution.of([1, 2], [3, 4]) == WireDistribution.of([1, 2], [3, 4])
    assert WireDistribution.of([1, 2], [3, 4]) != WireDistribution.of([1, 2], [3, 5])
    assert WireDistribution.of([1, 2], [3, 4]) != WireDistribution.of([1, 3], [3, 4])
    assert WireDistribution.of([1], [3]) != "p"
