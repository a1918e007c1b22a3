"""What is told of tokens is of the device's whole distribution and the cloud's as it came.

Covers `dragon.inference.distribution`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.inference import distribution
from dragon.inference.distribution import LOWEST, DetailedSide, FullDistribution
from dragon.protocol.state import Settled
from dragon.sampling.mixture import ETA_ONE, Side, device_weight
from dragon.sampling.quantized import cut

VOCABULARY = 5000
TOP = 20


def side(logits: torch.Tensor, log_h: int, weights: tuple[float, ...] = (0.75, 0.25)) -> Side:
    """A side of several rows, [rows, V]."""
    shares = torch.tensor(weights[: len(logits)], dtype=torch.float64)
    full = FullDistribution.of(logits, shares / shares.sum())
    return DetailedSide(cut(full.mixed.exp().numpy()).wire, log_h, full)


def exact(device: Side, cloud: Side) -> torch.Tensor:
    """log p over the whole vocabulary, in float64: the slow way."""
    eta = device_weight(device.log_h, cloud.log_h) / ETA_ONE
    own = device.full.mixed.double().exp()
    other = torch.from_numpy(cloud.wire.dense(VOCABULARY) / cloud.wire.total)
    return torch.log(eta * own + (1 - eta) * other)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 20), st.floats(0.0, 12.0), st.floats(0.0, 12.0), st.integers(-900, 900))
def test_the_likeliest_are_those_of_the_mixture(
    seed: int, device_scale: float, cloud_scale: float, log_h: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    device = side(torch.randn(2, VOCABULARY, generator=chance) * device_scale, log_h)
    cloud = side(torch.randn(2, VOCABULARY, generator=chance) * cloud_scale, 0)
    token = seed % VOCABULARY
    found = distribution.estimate(Settled(3, token, device, cloud), TOP)
    expected = exact(device, cloud)
    assert len(found.top) == TOP
    values = torch.topk(expected, TOP).values
    assert [value for _, value in found.top] == pytest.approx(values.tolist(), abs=1e-4)
    for other, value in found.top:
        assert value == pytest.approx(float(expected[other]), abs=1e-4)
    assert found.logprob == pytest.approx(float(expected[token]), abs=1e-4)
    place = np.searchsorted(cloud.wire.ids, token)
    in_cloud = place < len(cloud.wire.ids) and cloud.wire.ids[place] == token
    assert 0.0 <= found.cloud <= 1.0
    assert (found.cloud > 1e-6) <= in_cloud


def test_the_cloud_s_own_cut_is_all_that_is_missing() -> None:
    chance = torch.Generator().manual_seed(5)
    device = side(torch.randn(2, VOCABULARY, generator=chance) * 6, 0)
    cloud = side(torch.randn(2, VOCABULARY, generator=chance) * 6, 0)
    token = int(cloud.wire.ids[cloud.wire.weights.argmax()])
    whole = torch.logaddexp(device.full.mixed, cloud.full.mixed) - math.log(2)
    found = distribution.estimate(Settled(0, token, device, cloud), TOP)
    # The nucleus holds 0.98 and is renormalised: at most that much more.
    assert abs(found.logprob - float(whole[token])) < -math.log(0.98) + 1e-3


def test_a_cloud_of_no_weight_has_no_share() -> None:
    chance = torch.Generator().manual_seed(1)
    device = side(torch.randn(1, VOCABULARY, generator=chance) * 5, 64 * 1024)
    cloud = side(torch.randn(1, VOCABULARY, generator=chance) * 5, -64 * 1024)
    found = distribution.estimate(Settled(0, 7, device, cloud), 5)
    assert found.cloud == 0.0
    assert found.top == distribution.alone(device.full, 7, 5).top


def test_what_one_side_wrote_alone_is_its_own() -> None:
    device = side(torch.randn(2, VOCABULARY), 0)
    settled = Settled(0, 4, device, None)
    assert distribution.estimate(settled, 3) == distribution.alone(device.full, 4, 3)
    assert distribution.distance(settled) is None


def test_shares_say_which_row_it_was() -> None:
    logits = torch.zeros(2, 4)
    logits[0, 1] = 3.0
    full = FullDistribution.of(logits, torch.tensor([0.5, 0.5], dtype=torch.float64))
    rows = torch.softmax(logits, -1)[:, 1]
    assert full.shares(1) == pytest.approx((rows / rows.sum()).tolist(), abs=1e-6)
    assert sum(full.shares(0)) == pytest.approx(1.0, abs=1e-6)


def test_what_cannot_be_is_finite() -> None:
    logits = torch.zeros(1, 4)
    logits[0, 2] = -torch.inf
    full = FullDistribution.of(logits, torch.ones(1, dtype=torch.float64))
    assert float(full.mixed[2]) == LOWEST
    assert full.shares(2) == [1.0]
    own = DetailedSide(cut(full.mixed.exp().numpy()).wire, 0, full)
    found = distribution.estimate(Settled(0, 2, own, None), 4)
    assert all(math.isfinite(value) for _, value in found.top)


def test_nothing_is_less_likely_than_what_cannot_be() -> None:
    logits = torch.full((3, 4), -torch.inf)
    logits[:, 2] = 0.0
    full = FullDistribution.of(logits, torch.full((3,), 1 / 3, dtype=torch.float64))
    found = distribution.likeliest(full.mixed + distribution.log(0.5), 4)
    assert [value for _, value in found[1:]] == [LOWEST] * 3
