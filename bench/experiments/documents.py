"""Many documents, and large ones: `python -m bench.documents [options]`

With `--prose`, a file of English prose, only what taking it in costs is measured
(`bench.experiments.document_ingestion`); without it there are two measurements. *Scale*
(`bench.document_scale`): stores of so many chunks are searched, and more documents are added.
*Responsiveness*: a device writes answers, idle and while it takes in a PDF of so many pages; a
second client asks for its health all the while. There are pauses between the latter answers, since
ingestion yields to answers, and would otherwise take hours.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.documents.ingestion import Phase
from app.storage.tables import Status
from bench.experiments import document_ingestion, document_scale
from bench.experiments.document_scale import sentence
from bench.lib import report
from harness import services
from harness.pdf import pdf
from harness.services import Service

# The activity under way, by the stage reported last.
_WORK = {
    Phase.STORED: "read",
    Phase.PARSED: "cut up",
    Phase.CHUNKED: "cut up",
    Phase.EMBEDDED: "embedded",
    Phase.INDEXED: "embedded",
}


@dataclass(frozen=True)
class Taken:
    """Milliseconds that something took, and what was being done with the PDF at its end."""

    milliseconds: float
    work: str


class Watch:
    """What is being done with a file, followed in a thread; `ended` is set once it is ingested."""

    def __init__(self, service: Service, file_id: str) -> None:
        self._service = service
        self._file_id = file_id
        self.work = _WORK[Phase.STORED]
        self.last: dict[str, Any] = {}
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        url = f"{self._service.url}/v1/files/{self._file_id}/events"
        with (
            suppress(httpx.HTTPError),  # the service may end before the ingestion does
            httpx.stream("GET", url, headers=self._service.headers, timeout=None) as response,
        ):
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.last = json.loads(line.removeprefix("data: "))
                    self.work = _WORK[Phase(self.last["stage"])]
        self.ended.set()


class Idle:
    """Stands in for a watch while nothing is ingested."""

    work = "idle"


class Probe:
    """Asks a service for its health again and again, in a thread of its own."""

    def __init__(self, url: str, watch: Watch | Idle, pause_s: float = 0.02) -> None:
        self._pause_s = pause_s
        self._url = url
        self._watch = watch
        self._ended = threading.Event()
        self._taken: list[Taken] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> list[Taken]:
        self._thread.start()
        return self._taken

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=120) as client:
            while not self._ended.wait(self._pause_s):
                began = time.perf_counter()
                client.get("/health").raise_for_status()
                took = 1000 * (time.perf_counter() - began)
                self._taken.append(Taken(took, self._watch.work))


def answer_gaps(client: httpx.Client, seed: int, tokens: int, watch: Watch | Idle) -> list[Taken]:
    """The time between the pieces of an answer, as they arrive."""
    body = {
        "model": "dragon-7m", "stream": True, "seed": seed, "max_tokens": tokens,
        "messages": [{"role": "user", "content": "Tell me about the keeper's ledger."}],
    }  # fmt: skip
    arrived = []
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if '"content":' in line:
                arrived.append((time.perf_counter(), watch.work))
    # The first piece comes at once and empty, the second after retrieval and prefill.
    pairs = itertools.pairwise(arrived[1:])
    return [Taken(1000 * (ended - began), work) for (began, _), (ended, work) in pairs]


def pages(count: int) -> Iterator[str]:
    """Pages of different prose."""
    chance = random.Random(7)
    for number in range(count):
        lines = [sentence(chance) for _ in range(30)]
        yield f"Page {number}\n" + "\n".join(lines)


def responsiveness(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows: idle, while a large PDF is ingested, and the latter by what was being done with it."""
    with tempfile.TemporaryDirectory() as directory:
        setup = services.Setup(Path(directory), endless=True)
        with (
            services.pair(setup) as (device, _),
            device.client(120) as client,
        ):
            seeds = itertools.count()
            idle = Idle()
            for _ in range(2):
                answer_gaps(client, next(seeds), options.tokens, idle)  # to warm up
            gaps: list[Taken] = []
            with Probe(device.url, idle) as health:
                for _ in range(options.answers):
                    gaps += answer_gaps(client, next(seeds), options.tokens, idle)
            yield _row("idle", gaps, health)
            content = pdf(*pages(options.pages))
            began = time.perf_counter()
            file = client.post("/v1/files", files={"file": ("large.pdf", content)}).json()
            accepted = time.perf_counter()
            watch = Watch(device, file["id"])
            gaps = []
            with Probe(device.url, watch) as health:
                while not watch.ended.is_set():
                    gaps += answer_gaps(client, next(seeds), options.tokens, watch)
                    watch.ended.wait(options.pause)
            if watch.last.get("status") != Status.PROCESSED:
                raise RuntimeError(f"the PDF was not taken in: {watch.last}")
            row = _row(f"while {options.pages} pages are taken in", gaps, health)
            row["accepted_ms"] = round(1000 * (accepted - began), 1)
            row["chunks"] = watch.last["total"]
            yield row
            for work in dict.fromkeys(_WORK.values()):
                of_work = [gap for gap in gaps if gap.work == work]
                asked = [ask for ask in health if ask.work == work]
                if of_work and asked:
                    yield _row(f"... {work}", of_work, asked)


def _row(when: str, gaps: Sequence[Taken], health: Sequence[Taken]) -> dict[str, Any]:
    between = [each.milliseconds for each in gaps]
    asked = [each.milliseconds for each in health]
    return {
        "when": when,
        "pieces": len(gaps),
        "ms_per_token": round(float(np.median(between)), 2),
        "p95_ms_per_token": round(float(np.percentile(between, 95)), 2),
        "health_ms": round(float(np.median(asked)), 2),
        "p95_health_ms": round(float(np.percentile(asked, 95)), 2),
    }


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", default="10000,100000")
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--added", type=int, default=50)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--answers", type=int, default=20, help="while idle")
    parser.add_argument("--prose", type=Path, help="a text file of English")
    parser.add_argument("--characters", type=int, default=400_000)
    parser.add_argument("--large", type=int, default=30_000_000, help="characters")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pause", type=float, default=2, help="seconds between answers meanwhile")
    options = parser.parse_args()
    if options.prose:
        rows = []
        for row in document_ingestion.taking_in(options.prose, options.characters, options.large):
            print(row, flush=True)
            rows.append(row)
        print(json.dumps({"rows": rows}))
        return
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
    report.section(
        "documents", responsive, columns=list(responsive[1]), title="documents, responsiveness"
    )
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
