"""A certificate is never wrong, and misses little of what is certain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.protocol.rules.oneway import certified
from dragon.sampling import mixture
from dragon.sampling.mixture import LOG_H_STEPS, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import SCALE, WireDistribution

VOCABULARY = 24


def sides(seed: int, share: float) -> tuple[Side, Side]:
    """A device that is fairly sure, and a cloud; `share` is about the device's weight."""
    chance = np.random.default_rng(seed)
    log_odds = float(np.log(share / (1.0 - share)))
    found = []
    for log_h in (round(log_odds * LOG_H_STEPS), 0):
        ids = np.sort(chance.choice(VOCABULARY, int(chance.integers(1, 8)), replace=False))
        weights = 1 + (chance.dirichlet(np.full(len(ids), 0.3)) * (SCALE - 8)).astype(np.int64)
        found.append(Side(WireDistribution.of(ids, weights), log_h))
    return found[0], found[1]


def certain(device: Side, log_h: int, token: int, sampling: Sampling, position: int) -> bool:
    """The slow way: no cloud that puts all its mass on one token changes the target.

    Where nothing truncates that is all clouds: the target is the fastest token, and another one is
    fastest where all of the cloud's mass is on it, if anywhere.
    """
    return all(
        mixture.target(device, Side(WireDistribution.of([v], [SCALE]), log_h), sampling, position)
        == token
        for v in range(VOCABULARY)
    )


@settings(max_examples=500)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
    st.sampled_from([1.0, 1.0, 0.9, 0.5]),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.sampled_from([0.0, 0.0, 0.2, 0.6, 1.0]),
    st.sampled_from([0.5, 0.7, 0.9, 0.97]),
)
def test_never_wrong(
    seed: int, temperature: float, top_p: float, top_k: int, min_p: float, share: float
) -> None:
    sampling = Sampling(temperature, top_p, seed, top_k=top_k, min_p=min_p)
    device, cloud = sides(seed, share)
    position = seed % 9
    token = mixture.draft(device, sampling, position)
    if certified(device, cloud.log_h, token, sampling, position, VOCABULARY):
        assert certain(device, cloud.log_h, token, sampling, position)
        for other in (cloud, *levelling(device, cloud.log_h, token)):
            assert mixture.target(device, other, sampling, position) == token


def levelling(device: Side, log_h: int, token: int) -> Iterator[Side]:
    """Clouds that lift as many other tokens as they can just above one, to push it out."""
    wire, eta = device.wire, mixture.device_weight(device.log_h, log_h)
    own = float(wire.weights[np.searchsorted(wire.ids, token)]) / wire.total
    lacks = [
        ((own - float(weight) / wire.total) * eta / max(1, mixture.ETA_ONE - eta), int(other))
        for other, weight in zip(wire.ids, wire.weights, strict=True)
        if other != token
    ]
    lacks.sort()
    for count in range(1, len(lacks) + 1):
        weights = {v: 1 + max(0, int(lack * SCALE) + 1) for lack, v in lacks[:count]}
        if (left := SCALE - sum(weights.values())) >= 0:
            weights[lacks[0][1]] += left
            ids = sorted(weights)
            yield Side(WireDistribution.of(ids, [weights[v] for v in ids]), log_h)


@pytest.mark.parametrize("truncation", [{"top_k": 2}, {"top_k": 3}, {"min_p": 0.2}, {"top_p": 0.6}])
def test_truncation_leaves_certificates(truncation: dict[str, float]) -> None:
    found = 0
    for seed in range(200):
        sampling = Sampling(0.5, seed=seed, **truncation)  # type: ignore[arg-type]
        device, cloud = sides(seed, 0.9)
        token = mixture.draft(device, sampling, 0)
        found += certified(device, cloud.log_h, token, sampling, 0, VOCABULARY)
    assert found > 20


@pytest.mark.parametrize("temperature", [0.0, 0.1, 0.5])
def test_finds_most_of_what_is_certain(temperature: float) -> None:
    found = possible = 0
    for seed in range(400):
        sampling = Sampling(temperature=temperature, seed=seed)
        device, cloud = sides(seed, 0.9)
        token = mixture.draft(device, sampling, 0)
        possible += certain(device, cloud.log_h, token, sampling, 0)
        found += certified(device, cloud.log_h, token, sampling, 0, VOCABULARY)
    assert possible > 40
    assert found >= 0.9 * possible


def test_a_cloud_of_equal_weight_is_waited_for_unless_the_device_is_sure() -> None:
    sampling = Sampling(temperature=0.0)
    sure = Side(WireDistribution.of([3], [SCALE]), 1)
    torn = Side(WireDistribution.of([3, 4], [SCALE // 2, SCALE // 2 - 1]), LOG_H_STEPS)
    assert certified(sure, 0, 3, sampling, 0, VOCABULARY)
    assert not certified(sure, 2, 3, sampling, 0, VOCABULARY)
    assert not certified(torn, 0, 3, sampling, 0, VOCABULARY)
