"""Who should aggregate? `python -m bench.scheduling [--acceptances FILE] [--grid small|whole]`

The experiment of DRAGON, arXiv 2504.11197, section 7.4, on a virtual clock: acceptances of the
model are replayed under each schedule of Algorithm 1, with extra latency, jitter of a fifth and
period 20 pi s. Both estimating schedules are compared with the better static side over a grid of
acceptances, decode delays and round trips. `tokenwise`, `coupled` and `oneway` run on the same
distributions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from bench.lib import report, workload
from bench.lib.acceptances import Acceptances, record
from bench.simulation import simulation
from bench.simulation.simulation import Accepted, World
from bench.simulation.timeline import Run
from dragon.inference.choice import ModelChoice
from dragon.protocol.aggregator_policy import Schedule

Row = dict[str, Any]

# Decode delays as implied by the figures of DRAGON, arXiv 2504.11197: 100 tokens take 27.5 s at low
# latency where the device decodes alone, and the cloud is an order of magnitude faster.
DEVICE_S, CLOUD_S = 0.25, 0.025
BASE_RTT_S = 0.002
JITTER = 0.2
EXTRA_MS = (0, 100, 200, 300, 400, 500)
_STATIC = (Schedule.DEVICE, Schedule.CLOUD)
_ESTIMATING = (Schedule.GREEDY, Schedule.PAPER)
SHARED_NOISE: dict[str, Callable[[World, Accepted], Run]] = {
    "tokenwise": simulation.tokenwise,
    "coupled, no catch-up": simulation.coupled,
    "coupled": partial(simulation.coupled, catch_up=True),
    "oneway": partial(simulation.oneway, catch_up=True),
}

_DELAYS_MS = ((50, 50), (100, 30), (30, 100), (130, 20), (250, 25))
_RTTS_MS = (0, 50, 100, 200, 300, 400, 500)
_SHARES = {"small": (0.5, 0.7, 0.9), "whole": (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)}
_GRID_SEQUENCES = {"small": 6, "whole": 50}
_GRID_TOKENS = 100


def replay(
    acceptances: Acceptances, extra_ms: Sequence[float], delays: tuple[float, float]
) -> list[Row]:
    """Mean seconds for 100 tokens by schedule and extra latency, beside the better static side."""
    rows: list[Row] = []
    for extra in extra_ms:
        world = World(*delays, BASE_RTT_S + extra / 1000, jitter=JITTER)
        seconds = {str(s): _mean(world, acceptances.speculative, s) for s in Schedule}
        for name, play in SHARED_NOISE.items():
            runs = [play(world, one) for one in acceptances.coupled]
            tokens = sum(map(len, acceptances.coupled))
            seconds[name] = 100 * sum(run.seconds for run in runs) / tokens
        better = min(seconds[s] for s in _STATIC)
        rows += [
            {
                "schedule": name,
                "extra_ms": extra,
                "seconds_per_100_tokens": round(value, 3),
                "ratio_to_better_static": round(value / better, 4),
            }
            for name, value in seconds.items()
        ]
    return rows


def _mean(world: World, sequences: Sequence[Accepted], schedule: Schedule) -> float:
    runs = [
        simulation.speculative(world, one, schedule, seed) for seed, one in enumerate(sequences)
    ]
    return 100 * sum(run.seconds for run in runs) / sum(map(len, sequences))


@dataclass(frozen=True)
class Cell:
    """A place in the grid: decode delays and round trip, ms, acceptances, what is drawn from them.

    Delays and acceptances are of device and cloud.
    """

    decode_ms: tuple[int, int]
    rtt_ms: int
    accept: tuple[float, float]
    sequences: int
    seed: int

    def ratios(self) -> dict[Schedule, float]:
        """The time of each schedule that estimates to that of the better static side."""
        chance = random.Random(self.seed)
        device, cloud = self.accept
        drawn = [
            [(chance.random() < device, chance.random() < cloud) for _ in range(_GRID_TOKENS)]
            for _ in range(self.sequences)
        ]
        world = World(self.decode_ms[0] / 1e3, self.decode_ms[1] / 1e3, self.rtt_ms / 1e3)
        better = min(_mean(world, drawn, schedule) for schedule in _STATIC)
        return {schedule: _mean(world, drawn, schedule) / better for schedule in _ESTIMATING}


def over_grid(size: str) -> list[Row]:
    """The scheduling ones against the better static side, over acceptances, delays, round trips."""
    shares = _SHARES[size]
    places = itertools.product(_DELAYS_MS, _RTTS_MS, itertools.product(shares, shares))
    cells = [Cell(*place, _GRID_SEQUENCES[size], seed) for seed, place in enumerate(places)]
    # Cells of the same times together: a process finds plays it has made before.
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(Cell.ratios, cells, chunksize=len(shares) ** 2))
    rows = []
    for schedule in _ESTIMATING:
        ratios = [one[schedule] for one in found]
        worst = cells[ratios.index(max(ratios))]
        rows.append(
            {
                "schedule": f"{schedule} over {len(cells)} cells",
                "sequences": worst.sequences,
                "mean_ratio": round(mean(ratios), 4),
                "worst_ratio": round(max(ratios), 4),
                "decode_ms": "{}/{}".format(*worst.decode_ms),
                "rtt_ms": worst.rtt_ms,
                "accept": "{}/{}".format(*worst.accept),
            }
        )
    return rows


def run(options: argparse.Namespace) -> list[Row]:
    """Rows of the replay, then those of the grid."""
    if options.acceptances is not None:
        acceptances = Acceptances.load(options.acceptances)
    else:
        acceptances = record(
            options.answers,
            options.tokens,
            options.sequences,
            options.temperature,
            ModelChoice(model=options.model, threads=1),
        )
        if options.save is not None:
            acceptances.save(options.save)
    delays = (options.decode_ms[0] / 1000, options.decode_ms[1] / 1000)
    rows = replay(acceptances, options.extra_ms, delays)
    return rows + over_grid(options.grid)


def table(rows: Sequence[Row]) -> list[Row]:
    """The seconds and ratios of `replay`, a column an extra latency."""
    lines: dict[str, Row] = {}
    for row in rows:
        line = lines.setdefault(row["schedule"], {"schedule": row["schedule"]})
        shown = f"{row['seconds_per_100_tokens']:.2f} ({row['ratio_to_better_static']:.3f})"
        line[f"{row['extra_ms']:g} ms"] = shown
    return list(lines.values())


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.replace("/", ",").split(",")]


_REPLAY_NOTES = """Seconds for 100 tokens by extra latency, and their ratio to those of the better
static side."""
_NOTES = """Ratios of a schedule's time to that of the better static side; with the worst where it
is: decode delays, round trip and acceptances, of device and cloud."""


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--acceptances", type=Path, help="a file saved before; default: record")
    made.add_argument("--save", type=Path, help="where to save what was recorded")
    workload.add_model(made)
    made.add_argument("--temperature", type=float, default=1.0)
    made.add_argument("--answers", type=int, default=5, help="answers recorded")
    made.add_argument("--tokens", type=int, default=100)
    made.add_argument("--sequences", type=int, default=50)
    made.add_argument("--extra-ms", type=_numbers, default=list(map(float, EXTRA_MS)))
    made.add_argument("--decode-ms", type=_numbers, default=[1e3 * DEVICE_S, 1e3 * CLOUD_S])
    made.add_argument("--grid", choices=list(_SHARES), default="small")
    return made


def main() -> None:
    """Simulate, write the results, and print one JSON object last."""
    options = parser().parse_args()
    rows = run(options)
    replayed = [row for row in rows if "extra_ms" in row]
    cells = [row for row in rows if "extra_ms" not in row]
    lines = table(replayed)
    for row in (*lines, *cells):
        print(row)
    report.section("scheduling", lines, model=options.model, notes=_REPLAY_NOTES)
    report.section("scheduling", cells, title="scheduling over a grid", notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
