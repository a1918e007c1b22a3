"""What is told of tokens: the likeliest of the mixture are exact, however little is sent.

Covers `dragon.inference.distribution` and `peer.logprobs`.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.inference import logprobs
from dragon.inference.distribution import LOWEST, DetailedSide, FullDistribution
from dragon.inference.logprobs import MAX_ASKED, Mixture, Settled
from dragon.sampling.mixture import ETA_ONE, Side, device_weight
from dragon.sampling.quantized import cut
from peer.logprobs import CloudDetails

VOCABULARY = 5000
TOP = 20


def side(logits: torch.Tensor, log_h: int, weights: tuple[float, ...] = (0.75, 0.25)) -> Side:
    """A side of several rows, [rows, V]."""
    shares = torch.tensor(weights[: len(logits)], dtype=torch.float64)
    full = FullDistribution.of(logits, shares / shares.sum())
    return DetailedSide(cut(full.mixed.exp().numpy()).wire, log_h, full)


def settled(device: Side, cloud: Side, token: int) -> tuple[Settled, Settled]:
    """The same token as either side has committed it."""
    return Settled(3, token, 77, device, cloud), Settled(3, token, 77, cloud, device)


def exact(device: Side, cloud: Side) -> torch.Tensor:
    """log p over the whole vocabulary, in float64."""
    assert device.full is not None
    assert cloud.full is not None
    eta = device_weight(device.log_h, cloud.log_h) / ETA_ONE
    own, other = (s.full.mixed.double().exp() for s in (device, cloud))
    return torch.log(eta * own + (1 - eta) * other)


def told(device: Side, cloud: Side, token: int, top: int) -> tuple[logprobs.Estimated, int]:
    """Both sides' parts played through; how many tokens were asked for comes along."""
    own, theirs = settled(device, cloud, token)
    peer = CloudDetails(top)
    (detail,) = peer.of([theirs])
    mixture = Mixture(own, detail, top)
    asked = 0
    while tokens := mixture.in_doubt():
        assert len(tokens) <= MAX_ASKED
        asked += len(tokens)
        mixture.learn(tokens, peer.answer(logprobs.Question(3, 77, tokens)).logprobs)
    return mixture.estimate(), asked


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 20), st.floats(0.0, 12.0), st.floats(0.0, 12.0), st.integers(-900, 900))
def test_the_likeliest_are_those_of_the_whole_mixture(
    seed: int, device_scale: float, cloud_scale: float, log_h: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    device = side(torch.randn(2, VOCABULARY, generator=chance) * device_scale, log_h)
    cloud = side(torch.randn(2, VOCABULARY, generator=chance) * cloud_scale, 0)
    token = seed % VOCABULARY
    found, _ = told(device, cloud, token, TOP)
    expected = exact(device, cloud)
    values = torch.topk(expected, TOP).values
    assert [value for _, value in found.top] == pytest.approx(values.tolist(), abs=1e-4)
    for other, value in found.top:
        assert value == pytest.approx(float(expected[other]), abs=1e-4)
    assert found.logprob == pytest.approx(float(expected[token]), abs=1e-4)
    assert 0.0 <= found.cloud <= 1.0


def test_tokens_neither_side_has_among_its_likeliest_are_found() -> None:
    """Twenty likely ones on each side alone, and one that both have a little further down."""
    device, cloud = torch.full((2, 1, VOCABULARY), -20.0)
    device[0, :20] = 2.0
    cloud[0, 20:40] = 2.0
    device[0, 50] = cloud[0, 50] = 1.9
    found, asked = told(side(device, 0), side(cloud, 0), 0, TOP)
    assert found.top[0][0] == 50
    assert 0 < asked <= VOCABULARY


def test_flat_distributions_are_asked_for_in_pieces() -> None:
    flat = side(torch.zeros(1, VOCABULARY), 0)
    found, asked = told(flat, flat, 7, TOP)
    assert asked > MAX_ASKED
    assert found.logprob == pytest.approx(-math.log(VOCABULARY), abs=1e-4)


def test_a_cloud_of_no_weight_has_no_share() -> None:
    chance = torch.Generator().manual_seed(1)
    device = side(torch.randn(1, VOCABULARY, generator=chance) * 5, 64 * 1024)
    cloud = side(torch.randn(1, VOCABULARY, generator=chance) * 5, -64 * 1024)
    found, _ = told(device, cloud, 7, 5)
    assert found.cloud == 0.0
    assert device.full is not None
    assert found.top == logprobs.alone(device.full, 7, 5).top


def test_without_the_likeliest_nothing_is_kept_nor_asked() -> None:
    device, cloud = (side(torch.randn(2, VOCABULARY), 0) for _ in range(2))
    own, theirs = settled(device, cloud, 4)
    peer = CloudDetails(0)
    (detail,) = peer.of([theirs])
    assert detail.top == ()
    mixture = Mixture(own, detail, 0)
    assert mixture.in_doubt() == ()
    assert mixture.estimate().logprob == pytest.approx(float(exact(device, cloud)[4]), abs=1e-4)
    assert peer.answer(logprobs.Question(3, 77, (1, 2))).logprobs == ()


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
    detail = logprobs.cloud_detail(Settled(0, 2, 1, own, None), 4)
    assert all(math.isfinite(value) for _, value in detail.top)
