"""Many callers at once, and callers who want too much: scenarios of `bench.reliability`."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.lib.watched import Watched
from harness import services, two_sided
from harness.models import SMALL_MODEL
from harness.services import Service, Setup

NOTE = "The wifi password of the cabin is heron-42-lantern."
PUBLIC = "What is the capital of Kenya?"
_CROWD, _FIRST, _SOCKETS, _BODIES = 1000, 200, 2000, 8
_STEADY_S = 5.0
Row = dict[str, Any]


def body(question: str, *, tokens: int = 32, **dragon: Any) -> Row:
    """A request for a short answer."""
    messages = [{"role": "user", "content": question}]
    asked = {"model": SMALL_MODEL.name, "messages": messages, "max_tokens": tokens}
    return {**asked, "temperature": 0, "dragon": dragon}


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
    """As `_ask`, without a client library, which would be slower than the service."""
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
    """Seconds of each answer to a caller who asks one at a time."""
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
    """A caller who asks now and then, beside one who keeps 200 requests going."""

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
            await asyncio.sleep(_STEADY_S)  # until all are under way
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
            time.sleep(_STEADY_S)
        yield {"scenario": "sockets", **watched.row()}


def bodies() -> Iterator[Row]:
    """The largest bodies that are accepted, several at once."""
    text = json.dumps({"prompt": "The quick brown fox. " * 14_000})
    large = json.dumps({"model": SMALL_MODEL.name, "prompt": "a " * 2_000_000})

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
