"""Peers that come and go: `python -m bench.fleet [--seconds 120] [--drain] [--ray]`

Devices that ask all the time, each with a list of the same peers. Every few seconds a peer in its
turn is killed, or with `--drain` told to end, and started again once it has ended. With `--ray` it
is a replica on Ray Serve, of as many, which have the corpus in as many shards; to drain, all are
deployed anew, one after the other, which is counted once.

An answer `hung` if it did not end within a minute; it `noticed` if the cloud did not take part
from its first to its last token; it `rejoined` if the cloud was lost and took part again. `wrong`
counts texts that, up to where the cloud was lost, are not those of a request that nothing happened
to; not among them are those `without` a shard, which was down or late. Every device has a document,
of which `lost` are gone in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from bench.lib import report
from harness import services
from harness.models import SMALL_MODEL
from harness.services import Floor, Service, Setup

_HUNG_S = 60.0
_BEGINNINGS = ("The capital of Kenya is", "Penicillin was discovered by", "The sky is blue because")
_NOTE = b"The spare key of the cabin hangs under the third flowerpot."
_TOKENS = 160


@dataclass(frozen=True)
class Answer:
    """A request's number, its text, and from and to which tokens the cloud took part."""

    number: int
    text: str
    tokens: int
    participation: list[list[int]]
    unsearched: int

    @property
    def noticed(self) -> bool:
        """Whether anything happened to it."""
        return self.participation != [[0, self.tokens]]


class Peers(Protocol):
    """Peers that can be ended and come back."""

    def end(self, turn: int, *, drain: bool) -> None:
        """Kill one, in turn, or tell it to end; return once there are as many again."""


@dataclass(frozen=True)
class Processes:
    """Peers, a process each."""

    peers: Sequence[Service]

    def end(self, turn: int, *, drain: bool) -> None:
        """See `Peers`."""
        peer = self.peers[turn % len(self.peers)]
        peer.signal(signal.SIGTERM if drain else signal.SIGKILL)
        peer.process.join()
        peer.restart()


@dataclass
class Fleet:
    """The devices, their peers, and the answers."""

    devices: Sequence[Service]
    peers: Peers
    counts: Counter[str] = field(default_factory=Counter)
    answers: list[Answer] = field(default_factory=list)

    async def ask_on(self, device: Service, until: float, numbers: itertools.count[int]) -> None:
        """Ask at one device, again as soon as there is an answer."""
        async with _client(device) as client:
            while time.monotonic() < until:
                self.counts["asked"] += 1
                try:
                    self.answers.append(await _asked(client, next(numbers), _TOKENS))
                except httpx.TimeoutException:
                    self.counts["hung"] += 1
                except httpx.HTTPError:
                    self.counts["failed"] += 1
                else:
                    self.counts["ended"] += 1

    async def end_on(self, until: float, every_s: float, *, drain: bool) -> None:
        """End one peer after the other, and start each again."""
        for turn in itertools.count():
            await asyncio.sleep(every_s)
            if time.monotonic() > until:
                return
            await asyncio.to_thread(self.peers.end, turn, drain=drain)
            self.counts["drained" if drain else "killed"] += 1

    async def wrong(self) -> int:
        """How many texts differ from the undisturbed ones before the cloud was lost."""
        wrong = 0
        async with _client(self.devices[0]) as client:
            for answer in (each for each in self.answers if not each.unsearched):
                joint = answer.participation[0][1] if answer.participation else 0
                if answer.participation and answer.participation[0][0] == 0:
                    undisturbed = await _asked(client, answer.number, joint)
                    while undisturbed.noticed or undisturbed.unsearched:
                        undisturbed = await _asked(client, answer.number, joint)
                    wrong += not answer.text.startswith(undisturbed.text.rstrip("\ufffd"))
        return wrong

    async def lost(self) -> int:
        """The number of documents that are gone."""
        lost = 0
        for device in self.devices:
            async with _client(device) as client:
                lost += not (await client.get("/v1/files")).json()["data"]
        return lost


def _client(device: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=device.url, headers=device.headers, timeout=_HUNG_S)


async def _asked(client: httpx.AsyncClient, number: int, tokens: int) -> Answer:
    """Continue a text; the number sets which one, and the seed."""
    body = {
        "model": SMALL_MODEL.name,
        "prompt": _BEGINNINGS[number % len(_BEGINNINGS)],
        "seed": number,
        "max_tokens": tokens,
        "dragon": {},
    }
    reply = await client.post("/v1/completions", json=body)
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    told = found["dragon"]["choices"][0]
    return Answer(
        number,
        found["choices"][0]["text"],
        found["usage"]["completion_tokens"],
        told["participation"],
        told["unsearched"],
    )


async def measured(fleet: Fleet, options: argparse.Namespace) -> dict[str, Any]:
    """A row: what was asked while peers came and went."""
    for device in fleet.devices:
        async with _client(device) as client:
            (await client.post("/v1/files", files={"file": ("note.txt", _NOTE)})).raise_for_status()
    until = time.monotonic() + options.seconds
    numbers = itertools.count()
    await asyncio.gather(
        fleet.end_on(until, options.every, drain=options.drain),
        *(fleet.ask_on(device, until, numbers) for device in fleet.devices),
    )
    return {
        **{name: fleet.counts[name] for name in ("asked", "ended", "hung", "failed")},
        **{name: fleet.counts[name] for name in ("killed", "drained")},
        "noticed": sum(answer.noticed for answer in fleet.answers),
        "rejoined": sum(len(answer.participation) > 1 for answer in fleet.answers),
        "without": sum(answer.unsearched > 0 for answer in fleet.answers),
        "wrong": await fleet.wrong(),
        "lost": await fleet.lost(),
    }


def main() -> None:
    """Ask, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--devices", type=int, default=5)
    parser.add_argument("--peers", type=int, default=2)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two ends")
    parser.add_argument("--drain", action="store_true", help="peers are told to end, not killed")
    parser.add_argument("--floor-ms", type=float, default=0.0, help="a device's step, at least")
    parser.add_argument("--ray", action="store_true", help="the peers are replicas on Ray Serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder)
        exact, floor = {"DRAGON_EXACT": "true"}, Floor(options.floor_ms)
        peers: Peers
        if options.ray:
            from harness import ray_peers

            corpus = services.demo_corpus(data, options.peers)
            replicas = ray_peers.peers(data / "peers", corpus, options.peers, exact)
            peers = stack.enter_context(replicas)
            ports = [peers.port]
        else:
            corpus = services.demo_corpus(data)
            setups = [Setup(data / f"peer-{number}", exact) for number in range(options.peers)]
            processes = [stack.enter_context(services.peer(setup, corpus)) for setup in setups]
            peers, ports = Processes(processes), [peer.port for peer in processes]
        devices = [
            stack.enter_context(services.device(Setup(data / f"{number}", exact, floor), *ports))
            for number in range(options.devices)
        ]
        for device in devices:
            services.wait_joint(device)
        row = asyncio.run(measured(Fleet(devices, peers), options))
    title = ", ".join(["fleet", *(["Ray"] * options.ray), *(["drained"] * options.drain)])
    report.section("fleet", [row], title=title)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
