"""Asking a running device, many questions at once, and running the program beside it.

No request needs authorities (`verify`): reading them takes longer than most requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import Any

import httpx

from app.generation.admission import FOR_ONE
from harness import two_sided, warm
from harness.raw_link import WAIT_S
from harness.services import Service


def questions() -> list[two_sided.Question]:
    """Questions of the two-sided benchmark, private and public ones in turn."""
    found = two_sided.read(two_sided.QUESTIONS, 8)
    private, public = ([q for q in found if q.side == side] for side in ("private", "public"))
    return [question for pair in zip(private, public, strict=True) for question in pair]


def upload(
    service: Service,
    name: str,
    content: str | bytes,
    headers: Mapping[str, str] | None = None,
    **fields: str,
) -> str:
    """Upload a note, or any file, and wait until it can be found; its id."""
    headers = headers or service.headers
    with httpx.Client(base_url=service.url, headers=headers, timeout=60, verify=False) as client:
        data = content.encode() if isinstance(content, str) else content
        reply = client.post("/v1/files", files={"file": (name, data)}, data=fields)
        reply.raise_for_status()
        document: str = reply.json()["id"]
        deadline = time.monotonic() + 60
        while (status := client.get(f"/v1/files/{document}").json()["status"]) != "processed":
            assert status != "error", client.get(f"/v1/files/{document}").text
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return document


def posted(device: Service, path: str, **body: Any) -> dict[str, Any]:
    """What is replied to a request that is taken."""
    url, waits = f"{device.url}{path}", 4 * WAIT_S
    reply = httpx.post(url, json=body, headers=device.headers, timeout=waits, verify=False)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 2 * WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def peer_once(device: Service, state: str) -> dict[str, Any]:
    """What a device says of its peer once the link is in a state."""
    url, deadline = f"{device.url}/ready", time.monotonic() + WAIT_S
    peer: dict[str, Any]
    while (peer := httpx.get(url, timeout=60, verify=False).json()["peer"])["state"] != state:
        assert time.monotonic() < deadline, peer
        time.sleep(0.05)
    return peer


def dragon(*arguments: str, **env: str) -> CompletedProcess[str]:
    """What the program does with these arguments."""
    return warm.run("cli", arguments, os.environ | env, timeout=2 * WAIT_S)


@dataclass(frozen=True)
class Ask:
    """One completion to ask for: of a chat, or `raw`, of a text."""

    question: str
    mode: str = "coupled"
    temperature: float = 1.0
    seed: int = 7
    tokens: int = 32
    private: bool = False
    model: str = "dragon-7m"
    raw: bool = False
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def path(self) -> str:
        """Where it is asked for."""
        return "/v1/completions" if self.raw else "/v1/chat/completions"

    def body(self, **more: Any) -> dict[str, Any]:
        """The request."""
        chat = {"messages": [{"role": "user", "content": self.question}]}
        return {
            "model": self.model,
            **({"prompt": self.question} if self.raw else chat),
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.tokens,
            "dragon": {"aggregation": self.mode, "private": self.private},
            **dict(self.more),
            **more,
        }


@dataclass(frozen=True)
class Reply:
    """What came back: the text and what the response says of how it was written."""

    text: str
    tokens: int
    finish: str
    sources: list[dict[str, Any]]
    participation: list[list[int]]
    stats: dict[str, float]


def chunks(device: Service, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of a stream; one that is no longer read is closed."""
    with httpx.stream(
        "POST",
        f"{device.url}{path}",
        headers=device.headers,
        json={**body, "stream": True},
        timeout=2 * WAIT_S,
        verify=False,
    ) as reply:
        assert reply.status_code == 200, reply.read()
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                assert "error" not in chunk, chunk
                yield chunk


def streamed(
    device: Service, ask: Ask, on_text: Callable[[], object] = lambda: None
) -> tuple[str, dict[str, Any]]:
    """The text of a `raw` one, and what is said of how it was written.

    `on_text` is called as it comes.
    """
    text, told = "", dict[str, Any]()
    for chunk in chunks(device, ask.path, ask.body()):
        for choice in chunk["choices"]:
            text += choice["text"]
            on_text()
        for each in (chunk.get("dragon") or {}).get("choices") or ():
            told = each
    return text, told


def in_the_middle(act: Callable[[], object]) -> Callable[[], None]:
    """Acts once, when some text has come."""
    pieces = 0

    def on_text() -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 20:
            act()

    return on_text


def ask_all(service: Service, asks: Sequence[Ask]) -> list[Reply]:
    """All answers, as many at once as one caller may have."""

    async def run() -> list[Reply]:
        limits = httpx.Limits(max_connections=None)
        headers = service.headers
        async with httpx.AsyncClient(
            base_url=service.url, headers=headers, timeout=300, limits=limits, verify=False
        ) as client:
            return await asyncio.gather(*(one(client, ask) for ask in asks))

    places = asyncio.Semaphore(FOR_ONE)

    async def one(client: httpx.AsyncClient, ask: Ask) -> Reply:
        async with places:
            reply = await client.post(ask.path, json=ask.body())
        assert reply.status_code == 200, reply.text
        body = reply.json()
        choice, own = body["choices"][0], body["dragon"]["choices"][0]
        return Reply(
            text=choice["text"] if ask.raw else choice["message"]["content"],
            tokens=body["usage"]["completion_tokens"],
            finish=choice["finish_reason"],
            sources=own["sources"],
            participation=own["participation"],
            stats=own["stats"],
        )

    return asyncio.run(run())
