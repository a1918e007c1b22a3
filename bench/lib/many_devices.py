"""Many devices at one peer, without models of their own: scenarios of `bench.reliability`."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from bench.lib.watched import Watched
from harness import services
from harness.light_device import LightAnswer, LightDevice, light_device
from harness.memory import resident
from harness.services import Service, Setup
from peer.keys import key_file

_GREEDY, _OTHERS = 32, 4
_IDLE, _AT_ONCE = 1000, 200
_TOKENS, _ANSWERS = 64, 6
Row = dict[str, Any]


@contextmanager
def _peer(data: Path) -> Iterator[Service]:
    with services.peer(Setup(data, endless=True), services.demo_corpus(data)) as peer:
        yield peer


def greedy_key() -> Iterator[Row]:
    """Four keys that ask one at a time, while a fifth does the same, or asks 32 at once."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        keys = [key_file(data / "peer").add(f"key-{number}") for number in range(1 + _OTHERS)]
        with _peer(data) as peer:
            asyncio.run(_beside(peer, keys, 1))  # whatever is loaded at first
            alike, greedy = (asyncio.run(_beside(peer, keys, many)) for many in (1, _GREEDY))
    for name, each in (("each key asks one", alike), (f"one key asks {_GREEDY}", greedy)):
        yield {"scenario": f"greedy key: {name}", "p50": round(1000 * each, 2)}
    yield {"scenario": "greedy key: the others' time a token", "p50": round(greedy / alike, 2)}


async def _beside(peer: Service, keys: Sequence[str], many: int) -> float:
    """The median of the others' seconds a token, while the first key asks so many at once."""
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(light_device(peer.port, key)) for key in keys
        ]
        busy = [asyncio.create_task(_on_and_on(first)) for _ in range(many)]
        await asyncio.sleep(1.0)
        found = await asyncio.gather(*(_one_by_one(other) for other in others))
        for task in busy:
            task.cancel()
    return float(np.median([answer.token_s for answers in found for answer in answers]))


async def _on_and_on(device: LightDevice) -> None:
    while True:
        await device.written(_TOKENS)


async def _one_by_one(device: LightDevice) -> list[LightAnswer]:
    return [await device.written(_TOKENS) for _ in range(_ANSWERS)]


def idle_devices() -> Iterator[Row]:
    """A thousand idle devices, answers of another one beside them, and 200 answers at once."""
    with tempfile.TemporaryDirectory() as folder, _peer(Path(folder)) as peer:
        asyncio.run(_gaps(peer))  # whatever is loaded at first
        yield _answering("alone", peer)
        before = resident(peer.process.pid)
        spawn = multiprocessing.get_context("spawn")
        connected, over = spawn.Event(), spawn.Event()
        crowd = spawn.Process(target=_stay, args=(peer.port, _IDLE, connected, over))
        crowd.start()
        try:
            connected.wait()
            grown = resident(peer.process.pid) - before
            yield {"scenario": "idle devices: kB each", "grown": round(1024 * grown / _IDLE, 1)}
            yield _answering(f"beside {_IDLE}", peer)
        finally:
            over.set()
            crowd.join()
        yield asyncio.run(_at_once(peer))


def _answering(name: str, peer: Service) -> Row:
    """The pace of answers, and of `/health` meanwhile, in milliseconds."""
    with Watched(peer) as watched:
        gaps = asyncio.run(_gaps(peer))
    p50, p99 = (round(float(np.percentile(gaps, each)), 1) for each in (50, 99))
    return {
        "scenario": f"idle devices: ms between tokens, {name}",
        "p50": p50,
        "seconds": p99,
        "health": watched.row()["health"],
    }


async def _gaps(peer: Service) -> list[float]:
    """Milliseconds between the tokens of answers that are written one after the other."""
    async with light_device(peer.port) as device:
        answers = [await device.written(2 * _TOKENS) for _ in range(_ANSWERS)]
    return [1000 * float(gap) for answer in answers for gap in np.diff(answer.came)]


def _stay(port: int, count: int, connected: Event, over: Event) -> None:
    """In a process of its own: keep `count` idle devices connected."""

    async def stay() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(count):
                await stack.enter_async_context(light_device(port))
            await asyncio.sleep(2.0)  # until the first, quick pings are over
            connected.set()
            await asyncio.to_thread(over.wait)

    asyncio.run(stay())


async def _decided(peer: Service, answers: Sequence[LightAnswer]) -> float:
    """The time at which the peer has accepted or refused all of them."""
    decided = 0
    while decided < len(answers):
        taken = await asyncio.to_thread(peer.metric, "dragon_peer_sessions")
        decided = int(taken) + sum(answer.refused is not None for answer in answers)
    return time.perf_counter()


async def _at_once(peer: Service) -> Row:
    """An answer for each of 200 devices, all requested at once.

    `taken_in` is the time until each is accepted or refused; devices hear of it with the passages.
    """
    async with AsyncExitStack() as stack:
        devices = [
            await stack.enter_async_context(light_device(peer.port)) for _ in range(_AT_ONCE)
        ]
        answers = await asyncio.gather(*(device.ask(_TOKENS) for device in devices))
        decided = await _decided(peer, answers)
        async with asyncio.timeout(120):
            await asyncio.gather(*(answer.over.wait() for answer in answers))
    found = Counter("written" if len(each.came) == _TOKENS else "refused" for each in answers)
    first = min(each.asked for each in answers)
    replied = [(each.replied or float("inf")) - first for each in answers]
    refused = [(each.replied or 0.0) - first for each in answers if each.refused]
    return {
        "scenario": f"idle devices: {_AT_ONCE} answers at once",
        "statuses": json.dumps(found),
        "refused_in": round(max(refused, default=0.0), 2),
        "taken_in": round(decided - first, 2),
        "seconds": round(max(replied), 2),
    }
