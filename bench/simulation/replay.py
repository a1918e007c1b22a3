"""Compares a measured answer with its replay on the virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.simulation import simulation
from bench.simulation.simulation import World
from dragon.sampling.role import Role
from harness.throttle import LAYERS

_SIDES = {"d": Role.DEVICE, "c": Role.CLOUD}
_ACCEPTED = {"=": (True, True), "d": (True, False), "c": (False, True), ".": (False, False)}


def written_ms(stats: Mapping[str, float], tokens: int) -> float:
    """Milliseconds from when both sides could begin to the last token.

    The first token arrives half a round trip after the cloud's prefill, whose time depends on the
    cloud's retrieval, which is not simulated.
    """
    total = stats["ms_per_token"] * tokens
    return total - (stats["ttft_ms"] - stats["prefill_ms"]) + stats["rtt_ms"] / 2


def simulated_ms(
    mode: str, stats: Mapping[str, float], verdicts: str, aggregators: str = ""
) -> float | None:
    """The same for a simulated answer with this one's verdicts, delays and round trip.

    Its `aggregators`, too: the scheduler sees distributions, of which a verdict says little, and
    another choice of sides can take a fifth longer. None for a mode that is not simulated, or if a
    measurement is missing.
    """
    if not verdicts or {"decode_device_ms", "decode_cloud_ms", "rtt_ms"} - stats.keys():
        return None
    world: dict[str, Any] = {
        "device_s": stats["decode_device_ms"] / 1000,
        "cloud_s": stats["decode_cloud_ms"] / 1000,
        "rtt_s": stats["rtt_ms"] / 1000,
        "layers": LAYERS,
    }
    accepted = [_ACCEPTED[verdict] for verdict in verdicts]
    aggregation, _, choice = mode.partition(":")
    match aggregation:
        case "coupled":
            run = simulation.coupled(World(**world), accepted, catch_up=choice != "no-catch-up")
        case "oneway":
            run = simulation.oneway(World(**world), accepted, catch_up=choice != "no-catch-up")
        case "exchange":
            run = simulation.coupled(World(**world, windows=(1, 1)), accepted)
        case "tokenwise":
            run = simulation.tokenwise(World(**world), accepted)
        case "speculative":
            sides = [_SIDES[side] for side in aggregators]
            run = simulation.handed_over(World(**world), accepted, sides)
        case _:
            return None
    return 1000 * run.seconds
