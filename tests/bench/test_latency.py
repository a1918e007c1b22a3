"""How `bench.latency` asks, and what it compares."""

from __future__ import annotations

from pathlib import Path

from bench.experiments.latency import ratios, setup_of
from harness.services import Floor, Setup


def test_ratios_compare_what_was_measured_alike() -> None:
    place = {"network": "n", "rtt_ms": 300.0, "floors_ms": "50/50", "temperature": 1.0}
    times = {"decode_device_ms": 50.0, "decode_cloud_ms": 60.0, "measured_rtt_ms": 300.0}
    rows = [
        {"mode": "coupled", "ms_per_token": 72.0, **place, **times},
        {"mode": "tokenwise", "ms_per_token": 396.0, **place, **times},
        {"mode": "coupled", "ms_per_token": 1.0, **place, **times, "temperature": 0.0},
    ]
    where = "n, 300 ms, 50/50, T = 1"
    assert ratios(rows) == {
        f"coupled/tokenwise at {where}": 0.182,
        f"tokenwise/bound at {where}": 1.1,
    }


def test_modes_are_options_of_the_device(tmp_path: Path) -> None:
    usual = Setup(tmp_path)
    assert setup_of("coupled", usual) == usual
    slow = setup_of("coupled:no-catch-up", usual)
    assert slow.program("device", Floor()) == ("harness.serve", ["device", "--no-catch-up"])
    static = setup_of("speculative:device", usual)
    assert static.program("device", Floor())[1] == ["device", "--schedule", "device"]
    assert static.program("peer", Floor()) == ("cli", ["peer"])
