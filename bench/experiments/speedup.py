"""Theorem 2 of DRAGON against simulation: `python -m bench.speedup [--tokens 2000]`

The speedup of Algorithm 1 over a round trip a token, the device aggregating, against the device's
decode delay. By the theorem (DRAGON, arXiv 2504.11197, section 6) the device's acceptance rate does
not matter (Corollary 3). Where the device is the slower side it does, since buffered drafts catch
up after a stall, and the theorem is pessimistic by the row's `surplus`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.lib import report
from bench.simulation import simulation
from bench.simulation.simulation import World
from dragon.protocol.aggregator_policy import Schedule

Row = dict[str, Any]


def theorem_2(device_s: float, cloud_s: float, rtt_s: float, accept_cloud: float) -> float:
    """The speedup S of DRAGON, arXiv 2504.11197, section 6, Theorem 2."""
    if rtt_s == 0 or cloud_s + rtt_s < device_s:
        return 1.0
    if device_s <= cloud_s:
        return 1.0 / (1.0 - accept_cloud / (1.0 + cloud_s / rtt_s))
    return 1.0 / (1.0 - (1.0 - device_s / (cloud_s + rtt_s)) * accept_cloud)


def run(options: argparse.Namespace) -> list[Row]:
    """Rows over both acceptances and the device's decode delay."""
    rows = []
    cases = itertools.product(options.accept_cloud, options.accept_device, options.device_ms)
    for accept_cloud, accept_device, device_ms in cases:
        chance = random.Random(0)  # the same fates in every case, so that only the shares differ
        drawn = [
            (chance.random() < accept_device, chance.random() < accept_cloud)
            for _ in range(options.tokens)
        ]
        world = World(device_ms / 1e3, options.cloud_ms / 1e3, options.rtt_ms / 1e3)
        each = simulation.tokenwise(world, drawn)
        ahead = simulation.speculative(world, drawn, Schedule.DEVICE)
        theorem = theorem_2(world.device_s, world.cloud_s, world.rtt_s, accept_cloud)
        simulated = each.seconds / ahead.seconds
        rows.append(
            {
                "device_ms": device_ms,
                "cloud_ms": options.cloud_ms,
                "rtt_ms": options.rtt_ms,
                "accept_device": accept_device,
                "accept_cloud": accept_cloud,
                "theorem": round(theorem, 4),
                "simulated": round(simulated, 4),
                "surplus": round(simulated / theorem - 1.0, 4),
            }
        )
    return rows


def table(rows: Sequence[Row]) -> list[Row]:
    """The speedups of `run`, a column a decode delay of the device."""
    lines: dict[tuple[float, str], Row] = {}
    for row in rows:
        share = row["accept_cloud"]
        for name, value in (
            ("Theorem 2", row["theorem"]),
            (f"simulated, device accepted {row['accept_device']:g}", row["simulated"]),
        ):
            line = lines.setdefault((share, name), {"cloud accepted": share, "speedup": name})
            line[f"{row['device_ms']:g} ms"] = value
    return list(lines.values())


def plot(rows: Sequence[Row], path: Path) -> None:
    """Speedup against the device's decode delay, theorem and simulation, as SVG."""
    from matplotlib.figure import Figure

    clouds = sorted({row["accept_cloud"] for row in rows})
    figure = Figure(figsize=(4 * len(clouds), 3.6), layout="constrained")
    for axes, cloud in zip(figure.subplots(1, len(clouds), squeeze=False)[0], clouds, strict=True):
        here = [row for row in rows if row["accept_cloud"] == cloud]
        for device in sorted({row["accept_device"] for row in here}):
            line = [row for row in here if row["accept_device"] == device]
            x = [row["device_ms"] for row in line]
            label = f"simulated, device accepted {device:g}"
            axes.plot(x, [row["simulated"] for row in line], marker=".", label=label)
        axes.plot(x, [row["theorem"] for row in line], "k--", label="Theorem 2")
        axes.set_title(f"cloud accepted {cloud:g}")
        axes.set_xlabel("device decode delay, ms")
        axes.set_ylabel("speedup over tokenwise")
        axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


_NOTES = """Over tokenwise, with the device aggregating, by its decode delay; {cloud:g} ms in the
cloud, {rtt:g} ms round trip. Where the device is the slower side its buffered drafts catch up after
a stall, which Theorem 2 leaves out: it is pessimistic by up to {surplus:.0%}."""


def main() -> None:
    """Simulate, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cloud-ms", type=float, default=50.0)
    parser.add_argument("--rtt-ms", type=float, default=300.0)
    parser.add_argument(
        "--device-ms", type=_numbers, default=[10.0, 25.0, 50.0, *range(75, 476, 50)]
    )
    parser.add_argument("--accept-device", type=_numbers, default=[0.0, 0.5, 0.9])
    parser.add_argument("--accept-cloud", type=_numbers, default=[0.5, 0.8, 0.95])
    parser.add_argument("--tokens", type=int, default=2000)
    options = parser.parse_args()
    rows = run(options)
    plot(rows, report.figure("speedup"))
    lines = table(rows)
    for line in lines:
        print(line)
    surplus = max(row["surplus"] for row in rows)
    notes = _NOTES.format(cloud=options.cloud_ms, rtt=options.rtt_ms, surplus=surplus)
    report.section("speedup", lines, notes=notes)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
