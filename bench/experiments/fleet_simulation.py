"""What a fleet needs, on paper: `python -m bench.fleet_simulation [--opening-ms ...]`

First the costs are measured at a peer of this machine, by devices without models: an opening (a
search and a prefill), a turn of the engine, and a token of each answer in it; unless they are
given, as for another model. Then devices ask a peer at random for a while whose steps take 20 ms at
least, so that other work on the machine matters less, and the simulation (`bench.simulation.fleet`)
is asked for the same: medians and 90th percentiles of both stand side by side. So do the shares of
answers that the cloud wrote whole while two peers were killed and started again. Last come the
least replicas that suffice for fleets of each size, where each device asks every five minutes: 99
of 100 answers with the cloud from the first token to the last, and a token in 0.1 s or less in 95
of 100 answers.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed, WebSocketException

from bench.lib import report
from bench.simulation.fleet import Costs, Fleet, Outcome, Simulation
from harness import services
from harness.light_device import LightAnswer, LightDevice, light_device
from harness.services import Floor, Service, Setup

_TOKENS = 64
_AT_ONCE = (1, 4, 16)
_SIZES = (1, 100, 1_000, 10_000)
_EVERY_S, _DEVICE_S, _READING_S = 300.0, 0.03, 0.1
_SIMULATED_S = 1800.0
_FAILING_S, _RECONNECT_S = 20.0, 0.5
Row = dict[str, Any]


async def measured(peer: Service, idle: float) -> Costs:
    """The costs of this peer, from the times of answers alone and beside others."""
    gaps = []
    async with light_device(peer.port) as device:
        await device.written(_TOKENS)  # whatever is loaded at first
        openings = []
        for _ in range(10):
            await asyncio.sleep(1.0)  # a question comes to a peer that rests, which is slower
            openings.append(_first_s(await device.written(_TOKENS)))
        for count in _AT_ONCE:
            answers = await asyncio.gather(*(device.written(2 * _TOKENS) for _ in range(count)))
            # While all are being written: from the last one's first token to the first one's last.
            begun = max(answer.came[0] for answer in answers)
            over = min(answer.came[-1] for answer in answers)
            came = [np.array(answer.came) for answer in answers]
            among = [np.diff(each[(each >= begun) & (each <= over)]) for each in came]
            gaps.append(float(np.mean(np.concatenate(among))))
    token_s, turn_s = np.polyfit(_AT_ONCE, gaps, 1)
    return Costs(
        opening_s=float(np.median(openings)) - gaps[0],
        turn_s=max(0.0, float(turn_s)),
        token_s=float(token_s),
        idle=idle,
    )


def _first_s(answer: LightAnswer) -> float:
    return answer.came[0] - answer.asked


async def asked(peer: Service, fleet: Fleet, seconds: float) -> list[LightAnswer]:
    """The answers of real devices that ask as those of a fleet do."""
    until = time.perf_counter() + seconds

    async def ask_on(device: LightDevice, chance: random.Random) -> list[LightAnswer]:
        writing: list[asyncio.Task[LightAnswer]] = []
        while True:
            await asyncio.sleep(chance.expovariate(1.0 / fleet.every_s))
            if time.perf_counter() > until:
                return await asyncio.gather(*writing)
            writing.append(asyncio.create_task(device.written(fleet.tokens)))

    async with AsyncExitStack() as stack:
        devices = [
            await stack.enter_async_context(light_device(peer.port)) for _ in range(fleet.devices)
        ]
        found = await asyncio.gather(
            *(ask_on(device, random.Random(number)) for number, device in enumerate(devices))
        )
    return [answer for answers in found for answer in answers]


def held(peer: Service, costs: Costs, seconds: float) -> Iterator[Row]:
    """Real devices beside simulated ones, at two loads."""
    for devices in (2, 8):
        # Devices without a model add no time of their own, and write nothing alone.
        fleet = Fleet(devices, 4.0, 1, tokens=_TOKENS, device_s=0.0, deadline_s=math.inf)
        real = asyncio.run(asked(peer, fleet, seconds))
        paper = Simulation(fleet, costs).run(20 * seconds)
        for name, first_s, token_s in (
            ("services", [_first_s(each) for each in real], [each.token_s for each in real]),
            ("simulation", paper.first_s(), paper.token_s()),
        ):
            yield {"devices": devices, "of": name, **_quantiles(first_s, token_s)}


@dataclass
class Restless:
    """A real device that connects to the next peer when its own has failed."""

    ports: Sequence[int]
    peer: LightDevice | None = None
    found: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep_linked(self) -> None:
        """Connect again and again, half a second after each loss as devices do."""
        for port in itertools.cycle(self.ports):
            with suppress(OSError, WebSocketException):
                async with light_device(port) as self.peer:
                    self.found.set()
                    await self.peer.lost()
            self.found.clear()
            await asyncio.sleep(_RECONNECT_S)

    async def whole(self, fleet: Fleet) -> bool:
        """Whether the cloud writes an answer from its first token, in time, to its last."""
        asked = time.perf_counter()
        try:
            async with asyncio.timeout(fleet.deadline_s):
                await self.found.wait()
            assert self.peer is not None
            answer = await self.peer.written(fleet.tokens)
        except (TimeoutError, ConnectionClosed):
            return False
        return len(answer.came) == fleet.tokens and answer.came[0] - asked < fleet.deadline_s


async def disturbed(
    peers: Sequence[Service], fleet: Fleet, seconds: float
) -> tuple[list[bool], list[float]]:
    """Real answers while peers are killed, each whole or not, and how long each peer was gone."""
    until = time.perf_counter() + seconds
    gone: list[float] = []

    async def fail_on(peer: Service, chance: random.Random) -> None:
        while True:
            await asyncio.sleep(chance.expovariate(1.0 / fleet.failing_s))
            if (killed := time.perf_counter()) > until:
                return
            peer.signal(signal.SIGKILL)
            await asyncio.to_thread(peer.process.join)
            await asyncio.to_thread(peer.restart)
            gone.append(time.perf_counter() - killed)

    async def ask_on(number: int, chance: random.Random) -> list[bool]:
        first = number % len(peers)
        ports = [peer.port for peer in (*peers[first:], *peers[:first])]
        device, writing = Restless(ports), list[asyncio.Task[bool]]()
        linked = asyncio.create_task(device.keep_linked())
        while time.perf_counter() < until:
            await asyncio.sleep(chance.expovariate(1.0 / fleet.every_s))
            writing.append(asyncio.create_task(device.whole(fleet)))
        outcomes = await asyncio.gather(*writing)
        linked.cancel()
        return outcomes

    failing = [fail_on(peer, random.Random(-number)) for number, peer in enumerate(peers, start=1)]
    asking = [ask_on(number, random.Random(number)) for number in range(fleet.devices)]
    found, _ = await asyncio.gather(asyncio.gather(*asking), asyncio.gather(*failing))
    return [outcome for outcomes in found for outcome in outcomes], gone


def held_failing(peers: Sequence[Service], costs: Costs, seconds: float) -> Iterator[Row]:
    """Real peers that fail beside simulated ones."""
    # Devices without a model write alone in no time.
    fleet = Fleet(8, 4.0, len(peers), tokens=_TOKENS, device_s=0.001, failing_s=_FAILING_S)
    real, gone = asyncio.run(disturbed(peers, fleet, seconds))
    paper = Simulation(replace(fleet, restart_s=float(np.mean(gone))), costs).run(20 * seconds)
    for name, asked, failed, whole in (
        ("services", len(real), len(gone), float(np.mean(real))),
        ("simulation", paper.counts["asked"], paper.counts["failed"], paper.whole),
    ):
        yield {"of": name, "asked": asked, "failed": failed, "whole": round(whole, 3)}


def _quantiles(first_s: Sequence[float], token_s: Sequence[float]) -> Row:
    return {
        f"{name}_{at}": round(1000 * float(np.percentile(values, at)), 1)
        for name, values in (("first", first_s), ("token", token_s))
        for at in (50, 90)
    }


def needed(costs: Costs) -> Iterator[Row]:
    """The least replicas for fleets of each size, and how they fare then."""
    for devices in _SIZES:
        # What all devices want of a replica's time, at most nine tenths of it.
        an_answer = costs.opening_s + 100 * costs.token_s
        replicas = max(1, round(devices * (an_answer / _EVERY_S + costs.idle) / 0.9))
        while not _suffices(outcome := _simulated(devices, replicas, costs)):
            replicas = max(replicas + 1, round(1.1 * replicas))
        yield {
            "devices": devices,
            "replicas": replicas,
            "busy": round(outcome.busy, 2),
            "whole": round(outcome.whole, 4),
            "refused": outcome.counts["refused"],
            **_quantiles(outcome.first_s(), outcome.token_s()),
        }


def _simulated(devices: int, replicas: int, costs: Costs) -> Outcome:
    if costs.idle * devices >= 0.9 * replicas:
        return Outcome()
    fleet = Fleet(devices, _EVERY_S, replicas, device_s=_DEVICE_S)
    # A single device asks too seldom to tell much in half an hour.
    return Simulation(fleet, costs).run(_SIMULATED_S * max(1, 100 // devices))


def _suffices(outcome: Outcome) -> bool:
    if not outcome.ended:
        return False
    return outcome.whole >= 0.99 and float(np.percentile(outcome.token_s(), 95)) <= _READING_S


def main() -> None:
    """Measure, compare, simulate, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of real devices, at each load")
    parser.add_argument("--opening-ms", type=float, help="with the next two: measure nothing")
    parser.add_argument("--turn-ms", type=float)
    parser.add_argument("--token-ms", type=float)
    parser.add_argument("--idle", type=float, default=0.00018, help="of a core, a device")
    options = parser.parse_args()
    beside: list[Row] = []
    if options.opening_ms is not None:
        opening_s, turn_s, token_s = (
            each / 1000 for each in (options.opening_ms, options.turn_ms, options.token_ms)
        )
        costs = Costs(opening_s, turn_s, token_s, options.idle)
    else:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            corpus = services.demo_corpus(data)
            with services.peer(Setup(data, endless=True), corpus) as peer:
                costs = asyncio.run(measured(peer, options.idle))
            slow = Setup(data, endless=True, peer_floor=Floor(20))
            other = Setup(data / "other", endless=True, peer_floor=Floor(20))
            with services.peer(slow, corpus) as peer:
                here = asyncio.run(measured(peer, 0.0))
                beside = list(held(peer, here, options.seconds))
                with services.peer(other, corpus) as second:
                    beside += held_failing([peer, second], here, 4 * options.seconds)
    for row in beside:
        print(row, flush=True)
    fleets = list(needed(costs))
    report.section("fleet_simulation", fleets, title="fleets on paper")
    print(json.dumps({"costs": vars(costs), "held": beside, "fleets": fleets}))


if __name__ == "__main__":
    main()
