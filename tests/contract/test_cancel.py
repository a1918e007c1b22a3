"""Clients that hang up free both sides.

Covers `app.generation.service` and `app.cancellation`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from harness.network_emulator import Network
from harness.services import Service, Setup
from tests import tiny
from tests.contract.asking import Ask, eventually
from tests.contract.conftest import Pair, linked

pytestmark = pytest.mark.services
CLIENTS = 24
CANCELLED = 'dragon_answers_total{mode="coupled",outcome="cancelled"}'


@pytest.fixture(scope="module")
def endless(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Services whose model never ends an answer by itself."""
    data = tmp_path_factory.mktemp("cancel")
    setup = Setup(data, {"DRAGON_MODEL": str(tiny.save(data / "model"))})
    with linked(setup, corpus) as pair:
        yield pair


def free_slots(service: Service) -> float:
    name = "dragon_peer_free_slots" if "peer" in service.log.name else "dragon_free_slots"
    return service.metric(name)


@pytest.fixture
def freed(endless: Pair) -> Iterator[Pair]:
    """The services, both of which must be as free after the test as before it."""
    services = endless.device, endless.peer
    before = [free_slots(service) for service in services]
    yield endless
    eventually(lambda: [free_slots(service) for service in services] == before)
    eventually(lambda: endless.peer.metric("dragon_peer_sessions") == 0)


def hang_up(device: Service, clients: int) -> None:
    """So many clients that read a first piece of an answer and are gone."""

    async def one(client: httpx.AsyncClient) -> None:
        ask = Ask("What is the capital of Kenya?", tokens=300, model="model")
        async with client.stream(
            "POST", "/v1/chat/completions", json=ask.body(stream=True)
        ) as reply:
            assert reply.status_code == 200, await reply.aread()
            pieces = 0
            async for line in reply.aiter_lines():
                pieces += '"content":' in line
                if pieces > 2:
                    return
        raise AssertionError("the answer ended before anybody hung up")

    async def run() -> None:
        async with httpx.AsyncClient(
            base_url=device.url,
            headers=device.headers,
            timeout=120,
            limits=httpx.Limits(max_connections=None),
        ) as client:
            await asyncio.gather(*(one(client) for _ in range(clients)))

    asyncio.run(run())


def cancelled_answers(pair: Pair) -> float:
    """How many answers were cancelled; the metric is not there before the first."""
    try:
        return pair.device.metric(CANCELLED)
    except KeyError:
        return 0


def test_hanging_up_frees_both_sides(freed: Pair) -> None:
    hang_up(freed.device, CLIENTS)


def test_hanging_up_without_reading_frees_both_sides(freed: Pair) -> None:
    device, cancelled = freed.device, cancelled_answers(freed)
    content = json.dumps(Ask("word " * 100, tokens=350, model="model").body(stream=True))
    head = "".join(f"{name}: {value}\r\n" for name, value in device.headers.items())
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{device.port}\r\n{head}"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}"
    ).encode()
    clients = [socket.create_connection(("127.0.0.1", device.port)) for _ in range(CLIENTS)]
    for client in clients:
        client.sendall(request)
    eventually(lambda: device.metric("dragon_answers_in_progress") == CLIENTS)
    for client in clients:
        client.close()
    eventually(lambda: device.metric("dragon_answers_in_progress") == 0)
    assert cancelled_answers(freed) == cancelled + CLIENTS


def test_hanging_up_while_a_prompt_is_scored_frees_both_sides(freed: Pair) -> None:
    freed.network.network = Network(0.5)  # many round trips of distributions
    body = {"model": "model", "prompt": [7] * 400, "echo": True, "logprobs": 1, "max_tokens": 0}
    url = f"{freed.device.url}/v1/completions"
    try:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, headers=freed.device.headers, json=body, timeout=3)
        eventually(lambda: freed.peer.metric("dragon_peer_sessions") == 0)
    finally:
        freed.network.network = Network()
