"""What the likeliest tokens leave of a distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench.experiments.likeliest import changed, named
from bench.lib.distributions import Pair
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import cut


def pairs() -> list[Pair]:
    """Two sides of thirty positions that hardly agree."""
    chance = np.random.default_rng(3)
    found = []
    for _ in range(30):
        own, remote = (torch.tensor(chance.dirichlet(np.full(50, 0.3))).float() for _ in range(2))
        device, cloud = (Side(cut(full.numpy()).wire, 0) for full in (own, remote))
        found.append(Pair(device, cloud, own, remote))
    return found


def test_all_tokens_change_nothing_and_few_change_much() -> None:
    assert changed(pairs(), 50, 1.0, both=True) == 0
    assert changed(pairs(), 1, 1.0, both=True) > changed(pairs(), 20, 1.0, both=True) >= 0


def test_the_likeliest_are_scaled_to_one() -> None:
    full = torch.tensor([0.5, 0.25, 0.15, 0.1])
    wire = named(full, 2, 0).wire
    assert wire.ids.tolist() == [0, 1]
    assert wire.weights[0] / wire.weights.sum() == pytest.approx(2 / 3, abs=1e-3)
