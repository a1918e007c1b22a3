"""The experiment's own arithmetic: both algorithms sample the mixture, a wrong one is seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench.experiments import exactness
from bench.experiments.exactness import Draws, Mixed
from bench.lib.distributions import Pair
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import WireDistribution

DRAWS = 3000


def pair() -> Pair:
    device = Side(WireDistribution.of([3, 5, 8], [30_000, 30_000, 5536]), 1024)
    cloud = Side(WireDistribution.of([5, 8, 9, 11], [20_000, 5000, 40_000, 536]), 0)
    none = torch.empty(0)
    return Pair(device, cloud, none, none)


def distance(drawn: Draws, mixed: Mixed) -> float:
    found = np.bincount(drawn.targets, minlength=len(mixed.ids)) / DRAWS
    return float(0.5 * np.abs(found - mixed.target).sum())


@pytest.mark.parametrize("name", list(exactness.ALGORITHMS))
def test_the_mixture_is_what_is_sampled(name: str) -> None:
    mixed = Mixed.of(pair())
    drawn = exactness.ALGORITHMS[name](pair(), mixed, DRAWS)
    assert mixed.target.sum() == pytest.approx(1)
    assert distance(drawn, mixed) < exactness.noise(mixed.target, DRAWS).max()


def test_one_side_alone_is_told_from_the_mixture() -> None:
    mixed = Mixed.of(pair())
    drawn = exactness.coupled(pair(), mixed, DRAWS)
    alone = Draws(drawn.device, drawn.device, drawn.cloud)
    assert distance(alone, mixed) > 2 * exactness.noise(mixed.target, DRAWS).max()


def test_coupled_drafts_agree_at_least_as_often_as_proved() -> None:
    (row, other) = exactness.measure(0, pair(), DRAWS)
    assert row["agree"] >= row["agree_bound"] - 0.05
    assert row["accept_device"] > other["accept_device"]
