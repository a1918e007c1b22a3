"""Attacked, crowded and held up: `python -m bench.reliability [--scenarios NAME ...]`

Real services as installed, on loopback. Each scenario makes rows of its own.

- `lying peer`: an answer with `cloud: always` for each behaviour of a hostile peer
  (`harness.faults.disturbances`): how long it took, and whether the device's document is in it.
- `flooding peer`, `flooding device`: bundles of tiny drafts as fast as they go, while the other
  side's `/health` is asked.
- `crowd`: answers asked for at once over the API: what became of them, and of their cloud.
- `second caller`: a page's user who asks now and then, beside an API client with 200 at once.
- `sockets`: 2,000 connections that say nothing, or half of a request's head.
- `bodies`: eight of the largest bodies that are taken, at once.
- `greedy-key`: the time a token of four keys that ask one answer at a time, while a fifth does the
  same and while it asks 32 at once; then the one by the other.
- `idle-devices`: how much of a peer's memory each of 1,000 idle devices takes, how an answer gets
  on beside them, and what becomes of 200 answers asked for at once.
- `frames`: a million wrong frames (`harness.faults.fuzz`) to a side's decoder and sessions.
- `cuts`: 200 kills, 50 power cuts, 200 failures of each kind (`bench.cuts`).

`health` is the 99th percentile of `/health` in ms meanwhile, `grown` what the attacked process
takes more afterwards, in MB.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from websockets.exceptions import ConnectionClosed

from bench.experiments.cuts import cut_short
from bench.lib import report
from bench.lib.crowds import NOTE, Row, bodies, body, both, crowd, second_caller, sockets
from bench.lib.many_devices import greedy_key, idle_devices
from bench.lib.watched import Watched
from dragon.inference.tokenizer import Tokenizer
from dragon.link import registry
from dragon.protocol.messages import Draft
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import services, two_sided
from harness.faults.disturbances import Behaviour, full_bundle
from harness.faults.fuzz import feed
from harness.faults.hostile_peer import HostilePeer, hostile_peer
from harness.memory import resident
from harness.models import SMALL_MODEL
from harness.raw_link import greeted, opening
from harness.services import Service, Setup

PRIVATE = "What is the wifi password of the cabin?"
_FRAMES = 1_000_000
_SECONDS = 10.0


@contextmanager
def attacked(behaviour: Behaviour) -> Iterator[tuple[Service, HostilePeer]]:
    """A device with one note, and a hostile peer."""
    lies = HostilePeer(Tokenizer.load(SMALL_MODEL), behaviour, "The password is")
    with (
        tempfile.TemporaryDirectory() as folder,
        hostile_peer(lies) as peer,
        services.device(Setup(Path(folder), services.AS_INSTALLED), peer.port) as device,
    ):
        two_sided.upload(device, [NOTE])
        yield device, peer


def lying_peer() -> Iterator[Row]:
    """An answer beside each behaviour."""
    with attacked(Behaviour.FLAT) as (device, peer):
        for behaviour in Behaviour:
            peer.behaviour = behaviour
            services.wait_joint(device)
            began = time.perf_counter()
            reply = httpx.post(
                f"{device.url}/v1/chat/completions",
                headers=device.headers,
                json=body(PRIVATE, cloud="always"),
                timeout=120,
            )
            text = reply.raise_for_status().json()["choices"][0]["message"]["content"]
            seconds = round(time.perf_counter() - began, 1)
            complete = "heron-42-lantern" in text
            yield {"scenario": f"lying peer: {behaviour}", "seconds": seconds, "whole": complete}


def flooding_peer() -> Iterator[Row]:
    """The device's `/health` while its peer sends all it can."""
    with attacked(Behaviour.FLOOD) as (device, _):
        services.wait_joint(device)
        with Watched(device) as watched:
            deadline = time.monotonic() + _SECONDS
            while time.monotonic() < deadline:
                httpx.post(
                    f"{device.url}/v1/chat/completions",
                    headers=device.headers,
                    json=body(PRIVATE, cloud="always"),
                    timeout=120,
                ).raise_for_status()
        yield {"scenario": "flooding peer", **watched.row()}


def flooding_device() -> Iterator[Row]:
    """The peer's `/health` while a device sends all it can."""
    draft = Draft(99, 0, 0, 0, 0, 5, 1000, Side(WireDistribution.of([5], [SCALE]), 0))
    bundle = full_bundle(registry.encode(draft, 1))
    with both() as (_, peer), greeted(peer.port) as link:
        link.send(opening(1))
        with Watched(peer) as watched, suppress(ConnectionClosed):
            deadline = time.monotonic() + _SECONDS
            while time.monotonic() < deadline:
                link.send(bundle)
        yield {"scenario": "flooding device", **watched.row()}


def frames() -> Iterator[Row]:
    """Wrong frames to each side; unhandled errors are raised."""
    for receiver in Role:
        feed(receiver, _FRAMES // 100, seed=1)  # what is imported and cached at first
        before = resident(os.getpid())
        counts = feed(receiver, _FRAMES, seed=2)
        grown = round(resident(os.getpid()) - before, 1)
        statuses = json.dumps({"refused": counts.refused, "taken": counts.taken})
        yield {"scenario": f"frames to the {receiver}", "statuses": statuses, "grown": grown}


def cuts() -> Iterator[Row]:
    """Promises that were broken, in place of statuses."""
    for each in cut_short(kills=200, power=50, failures=200):
        yield {**each, "whole": not each["broken"], "statuses": json.dumps(each["broken"])}


SCENARIOS: dict[str, Callable[[], Iterator[Row]]] = {
    "lying-peer": lying_peer,
    "flooding-peer": flooding_peer,
    "flooding-device": flooding_device,
    "crowd": crowd,
    "second-caller": second_caller,
    "sockets": sockets,
    "bodies": bodies,
    "greedy-key": greedy_key,
    "idle-devices": idle_devices,
    "frames": frames,
    "cuts": cuts,
}
_COLUMNS = (
    "scenario", "seconds", "p50", "whole", "statuses", "without_cloud", "refused_in", "taken_in",
    "health", "health_failed", "grown",
)  # fmt: skip


def main() -> None:
    """Run scenarios, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    options = parser.parse_args()
    rows = []
    for name in options.scenarios:
        for row in SCENARIOS[name]():
            print(row, flush=True)
            rows.append({column: row.get(column, "") for column in _COLUMNS})
    report.section("reliability", rows, columns=_COLUMNS)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
