"""The experiments on scheduling and speedup: what they count, and that they draw."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pytest

from bench.experiments import scheduling, speedup
from bench.lib.acceptances import Acceptances
from bench.simulation import simulation
from bench.simulation.simulation import World
from dragon.protocol.aggregator_policy import Schedule


def drawn(device: float, cloud: float, sequences: int = 6) -> list[list[tuple[bool, bool]]]:
    chance = random.Random(3)
    return [
        [(chance.random() < device, chance.random() < cloud) for _ in range(100)]
        for _ in range(sequences)
    ]


def test_acceptances_are_read_back(tmp_path: Path) -> None:
    found = Acceptances(drawn(0.6, 0.5, 2), drawn(0.8, 0.8, 2))
    found.save(tmp_path / "found.json")
    assert Acceptances.load(tmp_path / "found.json") == found


@pytest.mark.parametrize(
    ("decode_ms", "rtt_ms", "device", "cloud"),
    [
        ((20, 130), 500, 0.9, 0.9),
        ((100, 30), 200, 0.9, 0.3),
        ((50, 50), 300, 0.6, 0.6),
        ((30, 100), 200, 0.1, 0.9),
        ((130, 20), 300, 0.9, 0.1),
    ],
)
def test_greedy_does_not_lose_to_the_better_static_side(
    decode_ms: tuple[int, int], rtt_ms: int, device: float, cloud: float
) -> None:
    world = World(decode_ms[0] / 1e3, decode_ms[1] / 1e3, rtt_ms / 1e3)
    sequences = drawn(device, cloud)

    def seconds(schedule: Schedule) -> float:
        return sum(simulation.speculative(world, one, schedule).seconds for one in sequences)

    better = min(seconds(Schedule.DEVICE), seconds(Schedule.CLOUD))
    assert seconds(Schedule.GREEDY) <= 1.03 * better


def test_replay_has_a_row_a_schedule() -> None:
    found = Acceptances(drawn(0.6, 0.5, 2), drawn(0.8, 0.8, 2))
    rows = scheduling.replay(found, [0.0, 500.0], (0.25, 0.025))
    assert len(rows) == 2 * (len(Schedule) + 4)
    for extra in (0.0, 500.0):
        ratios = {
            r["schedule"]: r["ratio_to_better_static"] for r in rows if r["extra_ms"] == extra
        }
        assert min(ratios["device"], ratios["cloud"]) == 1.0
        assert ratios["coupled"] < ratios["coupled, no catch-up"]


def test_theorem_2_is_met_where_it_is_exact_and_pessimistic_elsewhere(tmp_path: Path) -> None:
    options = argparse.Namespace(
        cloud_ms=50.0,
        rtt_ms=300.0,
        device_ms=[50.0, 200.0],
        accept_device=[0.0, 0.9],
        accept_cloud=[0.8],
        tokens=1000,
    )
    rows = speedup.run(options)
    by = {(row["device_ms"], row["accept_device"]): row["surplus"] for row in rows}
    assert by[50.0, 0.0] == pytest.approx(0.0, abs=0.05)
    assert by[50.0, 0.9] == pytest.approx(0.0, abs=0.05)
    assert by[200.0, 0.0] == pytest.approx(0.0, abs=0.05)
    assert by[200.0, 0.9] > 0.05
    speedup.plot(rows, tmp_path / "speedup.svg")
    assert "<svg" in (tmp_path / "speedup.svg").read_text()


@pytest.mark.parametrize(
    ("device_s", "speedup_s"), [(0.01, 1 / (1 - 0.8 * 0.3 / 0.35)), (0.05, 3.1818), (0.35, 1.0)]
)
def test_theorem_2(device_s: float, speedup_s: float) -> None:
    assert speedup.theorem_2(device_s, 0.05, 0.3, 0.8) == pytest.approx(speedup_s, rel=1e-3)


def test_theorem_2_without_a_way_between() -> None:
    assert speedup.theorem_2(0.05, 0.05, 0.0, 0.8) == 1.0
