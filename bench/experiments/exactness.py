"""Are samples distributed as the mixture? `python -m bench.exactness [options]`

For pairs of distributions that the embedded model really made, the total variation between the
mixture and the frequencies of many draws, beside that of as many draws from the mixture itself:
what sampling noise alone gives. Draws are by coupled aggregation, a new seed each, and by DRAGON,
arXiv 2504.11197, Algorithm 1; the acceptance rates of both sides are reported too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bench.lib import distributions, report, workload
from bench.lib.distributions import Pair
from dragon.sampling import mixture
from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling
from harness.models import SMALL_MODEL

_NOISE_RUNS = 500
_NOTES = """`tv` is the distance of the frequencies from the mixture, `noise` the mean and
`noise_99` the 99th percentile of what draws from the mixture itself give; `sides` is the distance
between the two sides. Coupled drafts agree with probability (1 - sides) / (1 + sides) at least,
`agree_bound`."""

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Mixed:
    """A pair over the union of its tokens: probabilities float64 [n], and the device's weight."""

    ids: Ids
    device: Floats
    cloud: Floats
    eta: float

    @property
    def target(self) -> Floats:
        """p_t = eta p^device + (1 - eta) p^cloud."""
        return self.eta * self.device + (1 - self.eta) * self.cloud

    @classmethod
    def of(cls, pair: Pair) -> Mixed:
        """The wire distributions of a pair, as probabilities."""
        one, other = pair.device.wire, pair.cloud.wire
        ids = np.union1d(one.ids, other.ids)
        device, cloud = np.zeros(len(ids)), np.zeros(len(ids))
        device[np.searchsorted(ids, one.ids)] = one.weights / one.total
        cloud[np.searchsorted(ids, other.ids)] = other.weights / other.total
        weight = mixture.device_weight(pair.device.log_h, pair.cloud.log_h)
        return cls(ids, device, cloud, weight / mixture.ETA_ONE)


@dataclass(frozen=True)
class Draws:
    """Indices into the pair's tokens, int64 [draws] each: targets, and the drafts of both sides."""

    targets: Ids
    device: Ids
    cloud: Ids


def coupled(pair: Pair, mixed: Mixed, draws: int) -> Draws:
    """Coupled aggregation as both services compute it, under one seed after another."""

    def drawn(choose: Callable[[Sampling], int]) -> Ids:
        tokens = [choose(Sampling(seed=seed)) for seed in range(draws)]
        return np.searchsorted(mixed.ids, tokens).astype(np.int64)

    return Draws(
        drawn(lambda sampling: mixture.target(pair.device, pair.cloud, sampling, 0)),
        drawn(lambda sampling: mixture.draft(pair.device, sampling, 0)),
        drawn(lambda sampling: mixture.draft(pair.cloud, sampling, 0)),
    )


def speculative(_: Pair, mixed: Mixed, draws: int) -> Draws:
    """DRAGON, arXiv 2504.11197, Algorithm 1 on wire distributions, following its pseudocode."""
    chance = np.random.default_rng(0)
    tokens = len(mixed.ids)

    def sample(x: Ids, own: Floats, other: Floats, eta: float) -> Ids:
        """`Sample`: keep a draft, or reject it and draw from norm(max(0, p^b - p^a))."""
        kept = x.copy()
        rejected = (own[x] > other[x]) & (chance.random(draws) < eta * (1 - other[x] / own[x]))
        if rejected.any():
            residual = np.maximum(0.0, other - own)
            residual /= residual.sum()
            kept[rejected] = chance.choice(tokens, int(rejected.sum()), p=residual)
        return kept

    device = chance.choice(tokens, draws, p=mixed.device)
    cloud = chance.choice(tokens, draws, p=mixed.cloud)
    one = sample(device, mixed.device, mixed.cloud, 1 - mixed.eta)
    other = sample(cloud, mixed.cloud, mixed.device, mixed.eta)
    return Draws(np.where(chance.random(draws) <= 0.5, one, other), device, cloud)


ALGORITHMS = {"coupled": coupled, "speculative": speculative}


def noise(target: Floats, draws: int) -> Floats:
    """TV between a distribution and the frequencies of draws from itself, float64 [runs]."""
    counts = np.random.default_rng(1).multinomial(draws, target, _NOISE_RUNS)
    distances: Floats = 0.5 * np.abs(counts / draws - target).sum(1)
    return distances


def measure(number: int, pair: Pair, draws: int) -> list[Row]:
    """A row for each algorithm on one pair."""
    mixed = Mixed.of(pair)
    expected = noise(mixed.target, draws)
    sides = mixture.total_variation(pair.device, pair.cloud)
    rows = []
    for name, draw in ALGORITHMS.items():
        drawn = draw(pair, mixed, draws)
        found = np.bincount(drawn.targets, minlength=len(mixed.ids)) / draws
        rows.append(
            {
                "pair": number,
                "algorithm": name,
                "tokens": len(mixed.ids),
                "eta": round(mixed.eta, 3),
                "sides": round(sides, 3),
                "draws": draws,
                "tv": round(float(0.5 * np.abs(found - mixed.target).sum()), 4),
                "noise": round(float(expected.mean()), 4),
                "noise_99": round(float(np.percentile(expected, 99)), 4),
                "accept_device": round(float((drawn.device == drawn.targets).mean()), 3),
                "accept_cloud": round(float((drawn.cloud == drawn.targets).mean()), 3),
                "agree": round(float((drawn.device == drawn.cloud).mean()), 3),
                "agree_bound": round((1 - sides) / (1 + sides), 3),
            }
        )
    return rows


def spread(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Pairs at even ranks of the distance between their sides, those that leave no choice aside."""

    def distance(pair: Pair) -> float:
        return mixture.total_variation(pair.device, pair.cloud)

    far = sorted((pair for pair in pairs if distance(pair) > 0), key=distance)
    return [far[round(rank)] for rank in np.linspace(0, len(far) - 1, count)]


def run(options: argparse.Namespace) -> list[Row]:
    """Rows of pairs between alike and far apart."""
    torch.set_num_threads(1)
    queries = workload.build(options, SMALL_MODEL)
    pairs = distributions.collect(queries, SMALL_MODEL, options.tokens)
    chosen = spread(pairs, options.pairs)
    return [row for n, pair in enumerate(chosen) for row in measure(n, pair, options.draws)]


def draw(rows: Sequence[Row]) -> None:
    """The distance from the mixture beside sampling noise, and how often drafts are accepted."""
    with report.plot("exactness", 2, x="TV between the sides", y="") as (distance, accepted):
        distance.set_title("TV of the frequencies from the mixture")
        accepted.set_title("drafts accepted, mean of both sides")
        for name in ALGORITHMS:
            own = [row for row in rows if row["algorithm"] == name]
            sides = [row["sides"] for row in own]
            distance.plot(sides, [row["tv"] for row in own], "o", label=name)
            mean = [(row["accept_device"] + row["accept_cloud"]) / 2 for row in own]
            accepted.plot(sides, mean, "o", label=name)
        distance.plot(sides, [row["noise_99"] for row in own], "_", label="99 % of the noise")


def main() -> None:
    """Draw, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32, help="of an answer, at most")
    workload.add_options(parser, prompts=6)
    options = parser.parse_args()
    rows = run(options)
    draw(rows)
    report.section("exactness", rows, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
