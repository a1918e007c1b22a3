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
- `frames`: a million wrong frames (`harness.faults.fuzz`) to a side's decoder and sessions.
- `cuts`: 200 kills, 50 power cuts and 200 full disks (`bench.cuts`).
- `kills`: a device's storage, killed before each of 200 operations on files and database, starts
  again: what it had promised (uploads, deletions, the ledger) it must keep.
- `power`: the same without power, at 50 operations, each once with nothing that was not
  synchronised left, once with a random part of it.

`health` is the 99th percentile of `/health` in ms meanwhile, `grown` what the attacked process
takes more afterwards, in MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from bench.experiments.cuts import cut_short
from bench.lib import report
from bench.lib.watched import Watched, memory
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.link import batching, control, registry
from dragon.protocol.messages import Draft
from dragon.retrieval import relevance
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256
from dragon.retrieval.reranker import Reranker
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import services, two_sided
from harness.faults.disturbances import Behaviour
from harness.faults.fuzz import feed
from harness.faults.hostile_peer import HostilePeer, hostile_peer
from harness.services import EMBEDDED_MODEL, KEY, Service, Setup

NOTE = "The wifi password of the cabin is heron-42-lantern."
PRIVATE = "What is the wifi password of the cabin?"
PUBLIC = "What is the capital of Kenya?"
_CROWD, _FIRST, _SOCKETS, _BODIES, _FRAMES = 1000, 200, 2000, 8, 1_000_000
_SECONDS = 10.0
Row = dict[str, Any]


def body(question: str, *, tokens: int = 32, **dragon: Any) -> Row:
    """A request for a short answer."""
    messages = [{"role": "user", "content": question}]
    asked = {"model": EMBEDDED_MODEL.name, "messages": messages, "max_tokens": tokens}
    return {**asked, "temperature": 0, "dragon": dragon}


@contextmanager
def attacked(behaviour: Behaviour) -> Iterator[tuple[Service, HostilePeer]]:
    """A device with one note, and a hostile peer."""
    lies = HostilePeer(Tokenizer.load(EMBEDDED_MODEL), behaviour, "The password is")
    with (
        tempfile.TemporaryDirectory() as folder,
        hostile_peer(lies) as peer,
        services.device(Setup(Path(folder), services.AS_INSTALLED), peer.port) as device,
    ):
        two_sided.upload(device, [NOTE])
        yield device, peer


@contextmanager
def both() -> Iterator[tuple[Service, Service]]:
    """A device with one note and its peer, as installed."""
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(Path(folder), services.AS_INSTALLED)
        corpus = services.demo_corpus(setup.data)
        with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
            two_sided.upload(device, [NOTE])
            services.wait_joint(device)
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
    tokenizer = Tokenizer.load(EMBEDDED_MODEL)
    draft = registry.encode(
        Draft(99, 0, 0, 0, 0, 5, 1000, Side(WireDistribution.of([5], [SCALE]), 0)), 1
    )
    assert isinstance(draft, bytes)
    (bundle,) = batching.messages([draft] * (batching.MAX_BYTES // (len(draft) + 4) - 1))
    with both() as (_, peer), linked(peer, tokenizer) as link:
        with Watched(peer) as watched, suppress(ConnectionClosed):
            deadline = time.monotonic() + _SECONDS
            while time.monotonic() < deadline:
                link.send(bundle)
        yield {"scenario": "flooding device", **watched.row()}


@contextmanager
def linked(peer: Service, tokenizer: Tokenizer) -> Iterator[ClientConnection]:
    """A link that has greeted and opened an answer."""
    hello = control.Hello(
        tokenizer=tokenizer.fingerprint,
        relevance=relevance.scale_of(PACKAGED_WEIGHTS_SHA256, Reranker.load().fingerprint),
        model="another",
    )
    opening = control.Open(
        conversation=tuple(tokenizer.conversation([Message("user", PUBLIC)])),
        raw=False, query=PUBLIC, mode=Mode.ONEWAY, temperature=1.0, top_p=1.0, seed=1, stream=0,
        max_tokens=400, top_k=1, catch_up=False,
    )  # fmt: skip
    headers = {"Authorization": f"Bearer {KEY}"}
    url = f"ws://127.0.0.1:{peer.port}/v1/link"
    with connect(url, additional_headers=headers, compression=None, close_timeout=1) as link:
        link.send(registry.encode(hello))
        link.recv()
        link.send(registry.encode(opening, 1))
        yield link


async def _ask(client: httpx.AsyncClient, asked: Row) -> tuple[int, float, Row]:
    began = time.perf_counter()
    reply = await client.post("/v1/chat/completions", json=asked)
    return reply.status_code, time.perf_counter() - began, reply.json()


def _client(device: Service) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(
        base_url=device.url, headers=device.headers, timeout=600, limits=limits
    )


async def _bare(device: Service, asked: bytes) -> tuple[int, float, Row]:
    """What `_ask` does, without a library that would be slower than the service."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", device.port)
    writer.write(asked)
    status = int((await reader.readline()).split()[1])
    seconds = time.perf_counter() - began
    _, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return status, seconds if status == 503 else time.perf_counter() - began, json.loads(content)


def crowd() -> Iterator[Row]:
    """A thousand answers at once."""

    async def ask(device: Service) -> list[tuple[int, float, Row]]:
        content = json.dumps(body(PUBLIC)).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1",
            f"Host: 127.0.0.1:{device.port}",
            *(f"{name}: {value}" for name, value in device.headers.items()),
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Connection: close",
        )
        asked = "\r\n".join((*head, "", "")).encode() + content
        return await asyncio.gather(*(_bare(device, asked) for _ in range(_CROWD)))

    with both() as (device, _):
        with Watched(device) as watched:
            found = asyncio.run(ask(device))
        statuses = Counter(status for status, _, _ in found)
        refused = [seconds for status, seconds, _ in found if status == 503]
        own = [reply["dragon"]["choices"][0] for status, _, reply in found if status == 200]
        yield {
            "scenario": "crowd",
            "statuses": json.dumps(statuses),
            "without_cloud": sum(not each["participation"] for each in own),
            "refused_in": round(float(np.percentile(refused, 95)), 2) if refused else None,
            "seconds": round(max(seconds for _, seconds, _ in found), 1),
            **watched.row(),
        }


def _now_and_then(device: Service) -> list[float]:
    """How long each of a caller's answers took, who asks one at a time."""
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        asked = body(PUBLIC) | {"user": "second"}
        url = f"{device.url}/v1/chat/completions"
        reply = httpx.post(url, headers=device.headers, json=asked, timeout=120)
        seconds = time.perf_counter() - began
        taken.append(seconds if reply.status_code == 200 else float("inf"))
        time.sleep(0.2)
    return taken


def second_caller() -> Iterator[Row]:
    """One who asks now and then beside one who keeps 200 going, who is told to come again."""

    async def ask(device: Service) -> tuple[list[float], Counter[int]]:
        first, over = Counter[int](), asyncio.Event()
        asked = body(PUBLIC) | {"user": "first"}
        async with _client(device) as client:

            async def again() -> None:
                while not over.is_set():
                    status, _, _ = await _ask(client, asked)
                    first[status] += 1
                    if status == 503:
                        await asyncio.sleep(1.0)

            busy = [asyncio.create_task(again()) for _ in range(_FIRST)]
            await asyncio.sleep(5.0)  # until it is at its height
            taken = await asyncio.to_thread(_now_and_then, device)
            over.set()
            await asyncio.gather(*busy)
        return taken, first

    with both() as (device, _):
        taken, first = asyncio.run(ask(device))
    p50, p95 = (round(float(np.percentile(taken, each)), 2) for each in (50, 95))
    yield {
        "scenario": "second caller",
        "statuses": json.dumps(first),
        "p50": p50,
        "seconds": p95,
    }


def sockets() -> Iterator[Row]:
    """Connections without a request."""
    with both() as (device, _), ExitStack() as stack:
        with Watched(device) as watched:
            for number in range(_SOCKETS):
                held = stack.enter_context(socket.create_connection(("127.0.0.1", device.port)))
                held.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" if number % 2 else b"")
            time.sleep(_SECONDS / 2)
        yield {"scenario": "sockets", **watched.row()}


def bodies() -> Iterator[Row]:
    """The most that is taken, at once."""
    text = json.dumps({"prompt": "The quick brown fox. " * 14_000})
    large = json.dumps({"model": EMBEDDED_MODEL.name, "prompt": "a " * 2_000_000})

    async def send(device: Service) -> Counter[int]:
        async with _client(device) as client:
            sent = [("/tokenize", text), ("/v1/completions", large)] * (_BODIES // 2)
            headers = {"Content-Type": "application/json"}
            found = [client.post(path, content=data, headers=headers) for path, data in sent]
            return Counter(reply.status_code for reply in await asyncio.gather(*found))

    with both() as (device, _):
        with Watched(device) as watched:
            statuses = asyncio.run(send(device))
        yield {"scenario": "bodies", "statuses": json.dumps(statuses), **watched.row()}


def frames() -> Iterator[Row]:
    """Each way; what nobody handles is raised."""
    for receiver in Role:
        feed(receiver, _FRAMES // 100, seed=1)  # what is imported and cached at first
        before = memory(os.getpid())
        counts = feed(receiver, _FRAMES, seed=2)
        grown = round(memory(os.getpid()) - before, 1)
        statuses = json.dumps({"refused": counts.refused, "taken": counts.taken})
        yield {"scenario": f"frames to the {receiver}", "statuses": statuses, "grown": grown}


def cuts() -> Iterator[Row]:
    """Promises that were broken, in place of statuses."""
    for each in cut_short(kills=200, power=50, full=200):
        yield {**each, "whole": not each["broken"], "statuses": json.dumps(each["broken"])}


SCENARIOS: dict[str, Callable[[], Iterator[Row]]] = {
    "lying-peer": lying_peer,
    "flooding-peer": flooding_peer,
    "flooding-device": flooding_device,
    "crowd": crowd,
    "second-caller": second_caller,
    "sockets": sockets,
    "bodies": bodies,
    "frames": frames,
    "cuts": cuts,
}
_COLUMNS = (
    "scenario", "seconds", "p50", "whole", "statuses", "without_cloud", "refused_in", "health",
    "health_failed", "grown",
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
