"""Two hours of everything at once: `python -m bench.soak [--minutes 120]`

A device and its peer, as installed, and callers who go on asking: short and long answers of every
mode, with and without the cloud, streamed, broken off, refused; files added, searched and deleted;
embeddings, lists. All their words are canaries, of which no log may hold one.

`first` is what a process holds after a quarter of the time, `last` at its end, `growth` the slope
between them in MB an hour (least squares), `log_mb` what it logs an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.lib import report
from dragon.sampling.params import Mode
from harness import services
from harness.memory import resident
from harness.models import SMALL_MODEL
from harness.services import Service, Setup

_CANARIES = tuple(f"zyxwort{number:03}" for number in range(100))
_PUBLIC = ("What is the capital of Kenya?", "Who discovered penicillin?", "Why is the sky blue?")
_CALLERS = 3
_FILES = 20
_EVERY_S = 20.0
_PAUSE_S = 0.2


class Soak:
    """The actions of the callers, and their outcomes."""

    def __init__(self, device: Service, seed: int) -> None:
        self._chance = random.Random(seed)
        self._files: list[str] = []
        self._client = httpx.AsyncClient(base_url=device.url, headers=device.headers, timeout=300)
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    async def go_on(self, until: float) -> None:
        """Act as one caller until then."""
        doings: list[Callable[[], Awaitable[int]]] = [
            self._answer, self._answer, self._answer, self._stream, self._leave, self._complete,
            self._add, self._remove, self._read, self._embed, self._refused,
        ]  # fmt: skip
        while time.monotonic() < until:
            doing = self._chance.choice(doings)
            name = doing.__name__.lstrip("_")
            try:
                status = await doing()
            except httpx.HTTPError as error:
                self.failed[f"{name}: {type(error).__name__}"] += 1
            else:
                self.done[name] += 1
                if status >= 500 or (status >= 400) is not (doing == self._refused):
                    self.failed[f"{name}: {status}"] += 1
            await asyncio.sleep(_PAUSE_S)

    def _body(self) -> dict[str, Any]:
        canary = self._chance.choice(_CANARIES)
        private = f"What is the code of {canary}?", f"And who lives in {canary}?"
        question = self._chance.choice([*private, *_PUBLIC])
        messages = [{"role": "user", "content": question}]
        if self._chance.random() < 0.3:
            before = f"Where is {canary}?", f"{canary} is in the north."
            roles = "user", "assistant"
            turns = zip(roles, before, strict=True)
            messages = [{"role": role, "content": text} for role, text in turns] + messages
        dragon = {
            "aggregation": self._chance.choice([mode.value for mode in Mode]),
            "cloud": self._chance.choice(["always", "when_needed", "never"]),
        }
        body = {"model": SMALL_MODEL.name, "messages": messages, "dragon": dragon}
        most = self._chance.choice([8, 32, 64])
        return body | {"max_tokens": most, "temperature": self._chance.choice([0, 1])}

    async def _answer(self) -> int:
        return (await self._client.post("/v1/chat/completions", json=self._body())).status_code

    async def _stream(self) -> int:
        asked = self._body() | {"stream": True}
        async with self._client.stream("POST", "/v1/chat/completions", json=asked) as reply:
            async for _ in reply.aiter_bytes():
                pass
            return reply.status_code

    async def _leave(self) -> int:
        asked = self._body() | {"stream": True, "max_tokens": 256}
        async with self._client.stream("POST", "/v1/chat/completions", json=asked) as reply:
            async for _ in reply.aiter_bytes():
                break
            return reply.status_code

    async def _complete(self) -> int:
        asked = {"model": SMALL_MODEL.name, "prompt": f"{self._chance.choice(_CANARIES)} is"}
        return (await self._client.post("/v1/completions", json=asked)).status_code

    async def _add(self) -> int:
        canary = self._chance.choice(_CANARIES)
        lines = [f"The code of {canary} is {self._chance.randrange(10_000)}."]
        lines += [f"Line {n} of {canary} says {self._chance.random()}." for n in range(20)]
        file = (f"{canary}-{self._chance.randrange(40)}.md", "\n".join(lines).encode())
        reply = await self._client.post("/v1/files", files={"file": file})
        if reply.status_code < 300 and (new := reply.json()["id"]) not in self._files:
            self._files.append(new)
        return reply.status_code if len(self._files) < _FILES else await self._remove()

    async def _remove(self) -> int:
        if not self._files:
            return 204
        gone = self._files.pop(self._chance.randrange(len(self._files)))
        reply = await self._client.delete(f"/v1/files/{gone}")
        return 204 if reply.status_code == 404 else reply.status_code  # replaced by one of its name

    async def _read(self) -> int:
        path = self._chance.choice(["/v1/files", "/api/ledger", "/api/status", "/v1/models"])
        return (await self._client.get(path)).status_code

    async def _embed(self) -> int:
        text = f"{self._chance.choice(_CANARIES)} and its neighbours"
        asked = {"model": "all-MiniLM-L6-v2", "input": text}
        return (await self._client.post("/v1/embeddings", json=asked)).status_code

    async def _refused(self) -> int:
        asked = self._body() | {"temperature": self._chance.choice(_CANARIES)}
        return (await self._client.post("/v1/chat/completions", json=asked)).status_code


async def soaked(device: Service, peer: Service, minutes: float, seed: int) -> list[dict[str, Any]]:
    """A row a process."""
    soak = Soak(device, seed)
    began = time.monotonic()
    until = began + 60 * minutes
    callers = [asyncio.create_task(soak.go_on(until)) for _ in range(_CALLERS)]
    held: list[tuple[float, float, float]] = []
    everyone = asyncio.gather(*callers)
    while not everyone.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(everyone), _EVERY_S)
        hours = (time.monotonic() - began) / 3600
        held.append((hours, resident(device.process.pid), resident(peer.process.pid)))
        print(*(round(each, 3) for each in held[-1]), dict(soak.failed), flush=True)
    hours, *each = np.array([row for row in held if row[0] >= minutes / 240]).T
    rows = []
    for service, name, mb in zip((device, peer), ("device", "peer"), each, strict=True):
        text = service.log.read_text(errors="replace")
        rows.append(
            {
                "process": name,
                "minutes": minutes,
                "done": sum(soak.done.values()),
                "failed": json.dumps(soak.failed),
                "first": round(float(mb[0]), 1),
                "last": round(float(mb[-1]), 1),
                "growth": round(float(np.polyfit(hours, mb, 1)[0]), 1),
                "log_mb": round(len(text) / 2**20 / (minutes / 60), 3),
                "canaries": sum(canary in text for canary in _CANARIES),
            }
        )
    return rows


def main() -> None:
    """Soak, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(Path(folder), services.AS_INSTALLED)
        with services.pair(setup) as (device, peer):
            rows = asyncio.run(soaked(device, peer, options.minutes, options.seed))
    report.section("soak", rows)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
