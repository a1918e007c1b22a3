"""Many documents, and large ones: `python -m bench.documents [options]`

Two measurements. *Scale* (`bench.document_scale`): stores of so many chunks are searched, and more
documents are added. *Responsiveness*: a device writes answers one after another, idle and while it
takes in a PDF of so many pages; between them, a second client asks for its health.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench import document_scale, report, services
from bench.document_scale import sentence
from bench.pdf import pdf

_HEALTH_PAUSE_S = 0.02


class Probe:
    """Asks a service for its health again and again, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self._milliseconds: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._milliseconds

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._ended.wait(_HEALTH_PAUSE_S):
                began = time.perf_counter()
                client.get("/health").raise_for_status()
                self._milliseconds.append(1000 * (time.perf_counter() - began))


def answer_gaps(client: httpx.Client, seed: int, tokens: int) -> list[float]:
    """Milliseconds between the pieces of an answer, as they arrive."""
    body = {
        "model": "dragon-7m", "stream": True, "seed": seed, "max_tokens": tokens,
        "messages": [{"role": "user", "content": "Tell me about the keeper's ledger."}],
    }  # fmt: skip
    arrived = []
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if '"content":' in line:
                arrived.append(time.perf_counter())
    # The first piece comes at once and empty, the second after retrieval and prefill.
    return [1000 * (b - a) for a, b in itertools.pairwise(arrived[1:])]


def pages(count: int) -> Iterator[str]:
    """Pages of different prose."""
    chance = random.Random(7)
    for number in range(count):
        lines = [sentence(chance) for _ in range(30)]
        yield f"Page {number}\n" + "\n".join(lines)


def responsiveness(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows: idle, and while a large PDF is taken in."""
    with tempfile.TemporaryDirectory() as directory:
        setup = services.Setup(Path(directory), endless=True)
        with (
            services.peer(setup, services.demo_corpus(setup.data)) as peer,
            services.device(setup, peer.port) as device,
            httpx.Client(base_url=device.url, headers=device.headers, timeout=120) as client,
        ):
            services.wait_joint(device)
            seeds = itertools.count()
            for _ in range(2):
                answer_gaps(client, next(seeds), options.tokens)  # to warm up
            with Probe(device.url) as health:
                idle = [
                    gap
                    for _ in range(options.answers)
                    for gap in answer_gaps(client, next(seeds), options.tokens)
                ]
            yield _row("idle", idle, health)
            content = pdf(*pages(options.pages))
            began = time.perf_counter()
            file = client.post("/v1/files", files={"file": ("large.pdf", content)}).json()
            accepted = time.perf_counter() - began
            busy: list[float] = []
            with Probe(device.url) as health:
                for _ in range(options.answers):
                    busy += answer_gaps(client, next(seeds), options.tokens)
                state = client.get(f"/v1/files/{file['id']}").json()
            row = _row(f"while {options.pages} pages are ingested", busy, health)
            row["accepted_ms"] = round(1000 * accepted, 1)
            row["status_at_end"] = state["status"]
            yield row


def _row(when: str, gaps: Sequence[float], health: Sequence[float]) -> dict[str, Any]:
    return {
        "when": when,
        "pieces": len(gaps),
        "ms_per_token": round(float(np.median(gaps)), 2),
        "p95_ms_per_token": round(float(np.percentile(gaps, 95)), 2),
        "health_ms": round(float(np.median(health)), 2),
        "p95_health_ms": round(float(np.percentile(health, 95)), 2),
    }


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", default="10000,100000")
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--added", type=int, default=50)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    scaled = []
    for chunks in map(int, options.chunks.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            scaled.append(
                asyncio.run(
                    document_scale.scale(chunks, options.searches, options.added, Path(directory))
                )
            )
    report.section("documents", scaled, title="documents, scale", notes=document_scale.NOTES)
    responsive = list(responsiveness(options))
    report.section("documents", responsive, title="documents, responsiveness")
    growth = scaled[-1]["search_ms"] / scaled[0]["search_ms"]
    slowing = responsive[1]["p95_ms_per_token"] / responsive[0]["p95_ms_per_token"]
    health = responsive[1]["p95_health_ms"] / responsive[0]["p95_health_ms"]
    summary = {
        "search_growth": round(growth, 2),
        "slowing": round(slowing, 2),
        "health_slowing": round(health, 2),
    }
    print(json.dumps({"rows": [*scaled, *responsive], "summary": summary}))


if __name__ == "__main__":
    main()
