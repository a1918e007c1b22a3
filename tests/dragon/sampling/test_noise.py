"""Shared noise: exact logarithms, uniform and independent numbers, the same bits everywhere."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from dragon.sampling import noise
from dragon.sampling.noise import Floats, Ids

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "noise_vectors.json").read_text())
EPSILON = 2.0**-52
# Each statistical test below has this chance of a false alarm, fixed before it was first run.
FALSE_ALARM = 1e-7


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int64)


def grid(seeds: int, streams: int, positions: int, tokens: int) -> Floats:
    """Uniform numbers, float64 [seeds, streams, positions, tokens]."""
    every = np.arange(tokens, dtype=np.int64)
    return np.array(
        [
            [
                [noise.uniform(seed, stream, position, every) for position in range(positions)]
                for stream in range(streams)
            ]
            for seed in range(seeds)
        ]
    )


def log_domains() -> dict[str, Floats]:
    chance = np.random.default_rng(1)
    n = 100_000
    unit = chance.random(n) + EPSILON / 2
    full: Floats = np.ldexp(chance.uniform(0.5, 1.0, n), chance.integers(-1073, 1025, n))
    return {
        "unit": unit,
        "below one": 1.0 - chance.integers(1, 1 << 20, n) * (EPSILON / 2),
        "above one": 1.0 + chance.integers(1, 1 << 20, n) * EPSILON,
        "near zero": (chance.integers(0, 1 << 20, n) + 0.5) * EPSILON,
        "around the fold": math.sqrt(0.5) * (1.0 + chance.uniform(-1e-6, 1e-6, n)),
        "weights": chance.integers(2, 1 << 50, n).astype(np.float64),
        "of a log": -np.log(unit),
        "all floats": full[(full > 0) & np.isfinite(full)],
        "ends": np.array([5e-324, 2.2250738585072014e-308, EPSILON / 2, 1.7976931348623157e308]),
    }


@pytest.mark.parametrize("domain", log_domains())
def test_log_is_within_two_ulp(domain: str) -> None:
    x = log_domains()[domain]
    x = x[x != 1.0]
    expected = np.log(x)
    assert (np.abs(noise.log(x) - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_log_of_one_is_zero() -> None:
    assert noise.log(np.array([1.0]))[0] == 0.0


def test_log_keeps_the_order_of_weights() -> None:
    low = np.arange(1, 1 << 17, dtype=np.float64)
    assert (np.diff(noise.log(low)) > 0).all()
    every = np.arange(1 << 16, dtype=np.float64)
    for high in (2.0**30, 2.0**49):
        assert (np.diff(noise.log(high + every)) >= 0).all()


def test_exp_is_within_a_few_ulp_of_its_argument() -> None:
    for x in np.linspace(-700, 700, 20_001).tolist():
        # The argument itself is rounded: to its own ulp, at best.
        bound = 4 * EPSILON * max(1.0, abs(x))
        assert abs(noise.exp(x) / math.exp(x) - 1.0) <= bound
    assert noise.exp(0.0) == 1.0


def test_uniform_is_never_an_end() -> None:
    u = grid(4, 2, 16, 8192)
    assert u.min() > 0.0
    assert u.max() < 1.0
    lowest, highest = 0.5 * EPSILON, (2.0**52 - 0.5) * EPSILON
    assert lowest > 0.0
    assert highest < 1.0
    assert np.isfinite(-noise.log(-noise.log(np.array([lowest, highest])))).all()


def test_uniform_needs_no_neighbours() -> None:
    every = np.arange(1000, dtype=np.int64)
    together = noise.uniform(7, 1, 42, every)
    for token in (0, 1, 500, 999):
        assert noise.uniform(7, 1, 42, ids(token))[0] == together[token]
    assert noise.uniform(7, 1, 42, ids()).shape == (0,)


def test_mean_and_variance() -> None:
    u = grid(4, 2, 16, 4096).ravel()
    z = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(u.mean() - 0.5) < z * math.sqrt(1 / 12 / u.size)
    # Var((U - 1/2)^2) = 1/80 - 1/144
    spread = ((u - 0.5) ** 2).mean()
    assert abs(spread - 1 / 12) < z * math.sqrt((1 / 80 - 1 / 144) / u.size)


@pytest.mark.parametrize("axis", range(4), ids=["seeds", "streams", "positions", "tokens"])
@pytest.mark.parametrize("lag", [1, 2])
def test_no_correlation_along(axis: int, lag: int) -> None:
    shape = [6, 6, 6, 256]
    u = np.moveaxis(grid(*shape), axis, 0)
    a, b = u[lag:].ravel() - 0.5, u[:-lag].ravel() - 0.5
    bound = stats.norm.isf(FALSE_ALARM / 2) / 12 / math.sqrt(a.size)
    assert abs((a * b).mean()) < bound


@pytest.mark.parametrize("seed", [0, 1, -1, 1 << 63])
def test_chi_square_of_single_numbers_and_of_pairs(seed: int) -> None:
    u = np.array([noise.uniform(seed, 0, t, np.arange(8192, dtype=np.int64)) for t in range(16)])
    counts = np.bincount((u.ravel() * 256).astype(int), minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    cells = (u[:-1] * 16).astype(int) * 16 + (u[1:] * 16).astype(int)
    assert stats.chisquare(np.bincount(cells.ravel(), minlength=256)).pvalue > FALSE_ALARM


def test_every_low_bit_is_fair() -> None:
    bits = (grid(2, 2, 8, 8192).ravel() / EPSILON - 0.5).astype(np.uint64)
    z = stats.norm.isf(FALSE_ALARM / 2 / 52)
    for bit in range(52):
        share = ((bits >> np.uint64(bit)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < z * 0.5 / math.sqrt(bits.size)


def test_gumbel_is_distributed_as_gumbel() -> None:
    tokens = np.arange(8192, dtype=np.int64)
    g = np.concatenate([noise.gumbel(3, 0, t, tokens) for t in range(8)])
    assert stats.kstest(g, "gumbel_r").pvalue > FALSE_ALARM


def test_seeds_equal_modulo_64_bits_are_the_same() -> None:
    tokens = ids(1, 2, 3)
    assert (noise.uniform(-1, 0, 0, tokens) == noise.uniform((1 << 64) - 1, 0, 0, tokens)).all()


def test_committed_vectors_bit_for_bit() -> None:
    tokens = ids(*VECTORS["tokens"])
    for case in VECTORS["gumbel"]:
        got = noise.gumbel(case["seed"], case["stream"], case["position"], tokens)
        assert [value.hex() for value in got.tolist()] == case["values"]
    x = np.array([float.fromhex(value) for value in VECTORS["log"]["of"]])
    assert [value.hex() for value in noise.log(x).tolist()] == VECTORS["log"]["values"]
    for argument, value in VECTORS["exp"].items():
        assert noise.exp(float.fromhex(argument)).hex() == value


def test_fingerprint_is_pinned() -> None:
    assert noise.fingerprint() == VECTORS["fingerprint"]
