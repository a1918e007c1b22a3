"""Peers that come and go: `python -m bench.fleet [--seconds 120] [--drain]`

Devices that ask all the time, each with a list of the same peers. Every few seconds a peer in its
turn is killed, or with `--drain` told to end, and started again once it has ended. An answer `hung`
that has not ended within a minute; it `noticed` if the cloud did not take part from its first to
its last token; it `rejoined` if the cloud was lost and took part again. `wrong` counts texts that,
up to where the cloud was lost, are not those of a request that nothing happened to. Every device
has a document, of which `lost` are gone in the end.
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
from typing import Any

import httpx

from bench.lib import report
from harness import services
from harness.services import EMBEDDED_MODEL, Service, Setup

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

    @property
    def noticed(self) -> bool:
        """Whether anything happened to it."""
        return self.participation != [[0, self.tokens]]


@dataclass
class Fleet:
    """What the devices have asked, and what came of it."""

    devices: Sequence[Service]
    peers: list[Service]
    counts: Counter[str] = field(default_factory=Counter)
    answers: list[Answer] = field(default_factory=list)

    async def ask_on(self, device: Service, until: float, numbers: itertools.count[int]) -> None:
        """One device's person, who asks again as soon as there is an answer."""
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

    async def end_on(self, until: float, every_s: float, number: signal.Signals) -> None:
        """End one peer after the other, and start each again."""
        for turn in itertools.count():
            await asyncio.sleep(every_s)
            if time.monotonic() > until:
                return
            peer = self.peers[turn % len(self.peers)]
            peer.signal(number)
            await asyncio.to_thread(peer.process.join)
            self.counts["killed" if number is signal.SIGKILL else "drained"] += 1
            await asyncio.to_thread(peer.restart)

    async def wrong(self) -> int:
        """How many texts are not what they were to be until the cloud was lost."""
        wrong = 0
        async with _client(self.devices[0]) as client:
            for answer in self.answers:
                joint = answer.participation[0][1] if answer.participation else 0
                if answer.participation and answer.participation[0][0] == 0:
                    undisturbed = await _asked(client, answer.number, joint)
                    wrong += not answer.text.startswith(undisturbed.text.rstrip("\ufffd"))
        return wrong

    async def lost(self) -> int:
        """How many documents are gone."""
        lost = 0
        for device in self.devices:
            async with _client(device) as client:
                lost += not (await client.get("/v1/files")).json()["data"]
        return lost


def _client(device: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=device.url, headers=device.headers, timeout=_HUNG_S)


async def _asked(client: httpx.AsyncClient, number: int, tokens: int) -> Answer:
    """A text continued; its number says which, and by which seed."""
    body = {
        "model": EMBEDDED_MODEL.name,
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
    )


async def measured(fleet: Fleet, options: argparse.Namespace) -> dict[str, Any]:
    """A row: what was asked while peers came and went."""
    for device in fleet.devices:
        async with _client(device) as client:
            (await client.post("/v1/files", files={"file": ("note.txt", _NOTE)})).raise_for_status()
    until = time.monotonic() + options.seconds
    numbers = itertools.count()
    number = signal.SIGTERM if options.drain else signal.SIGKILL
    await asyncio.gather(
        fleet.end_on(until, options.every, number),
        *(fleet.ask_on(device, until, numbers) for device in fleet.devices),
    )
    return {
        **{name: fleet.counts[name] for name in ("asked", "ended", "hung", "failed")},
        **{name: fleet.counts[name] for name in ("killed", "drained")},
        "noticed": sum(answer.noticed for answer in fleet.answers),
        "rejoined": sum(len(answer.participation) > 1 for answer in fleet.answers),
        "wrong": await fleet.wrong(),
        "lost": await fleet.lost(),
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=120.0)
    options.add_argument("--devices", type=int, default=5)
    options.add_argument("--peers", type=int, default=2)
    options.add_argument("--every", type=float, default=10.0, help="seconds between two ends")
    options.add_argument("--drain", action="store_true", help="peers are told to end, not killed")
    return options


def main() -> None:
    """Ask, report, and print one JSON object last."""
    options = parser().parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder)
        exact = {"DRAGON_EXACT": "true"}
        corpus = services.demo_corpus(data)
        peers = [
            stack.enter_context(services.peer(Setup(data / f"peer-{number}", exact), corpus))
            for number in range(options.peers)
        ]
        ports = [peer.port for peer in peers]
        devices = [
            stack.enter_context(services.device(Setup(data / f"{number}", exact), *ports))
            for number in range(options.devices)
        ]
        for device in devices:
            services.wait_joint(device)
        row = asyncio.run(measured(Fleet(devices, peers), options))
    title = "fleet, drained" if options.drain else "fleet"
    report.section("fleet", [row], title=title)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
