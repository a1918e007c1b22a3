"""Many documents, and large ones: `python -m bench.documents [options]`

Two measurements. *Scale*: a store of so many chunks is searched and one more document is added;
vectors are a stand-in's, so that no time goes into embedding. Of the files there were before, the
blocks that changed are counted. *Responsiveness*: a device writes answers one after another, idle
and while it takes in a PDF of so many pages; between them, a second client asks for its health.
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
import zlib
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app import database
from app.documents import DocumentStore
from bench import report, services
from bench.pdf import pdf
from dragon.retrieval.index import Vectors
from dragon.retrieval.reranker import Reranker
from dragon.tokenizer import Tokenizer

DIM = 384
SENTENCES = 50
"""Chunks of each document."""

_BLOCK = 4096
_WORDS = 20_000
_HEALTH_PAUSE_S = 0.02
_NOTES = (
    "`search_ms` is without embedding. `rewritten_share`: what changed in the files there were "
    "when a document of 50 chunks was added, of all bytes on disk; `new_kb` was appended."
)


class StandIn:
    """Random directions in place of meanings: the same text has the same one."""

    dim = DIM
    fingerprint = "stand-in"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, float32 [len(texts), dim]."""
        drawn = [np.random.default_rng(zlib.crc32(t.encode())).normal(size=DIM) for t in texts]
        vectors = np.asarray(drawn, dtype=np.float32).reshape(-1, DIM)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class NothingKept:
    """Keeps no document KV."""

    def start(self, documents: object) -> None:
        """Nothing to remove."""

    async def fill(self, document: str, texts: Sequence[str], progress: object) -> None:
        """Nothing to compute."""

    async def forget(self, document: str) -> None:
        """Nothing to forget."""


def sentence(chance: random.Random) -> str:
    """A sentence of common and of rare words, some of them codes."""
    words = [f"w{int(_WORDS ** chance.random())}" for _ in range(chance.randint(8, 16))]
    return f"The {' '.join(words)} of K{chance.randrange(10**6)}."


def document(number: int) -> bytes:
    """A document of 50 sentences, a line each."""
    chance = random.Random(number)
    return "\n".join(sentence(chance) for _ in range(SENTENCES)).encode()


@asynccontextmanager
async def opened(directory: Path, tokenizer: Tokenizer) -> Any:
    """A running document store."""
    url = database.database_url(directory)
    await asyncio.to_thread(database.migrate, url)
    engine = database.connect(url)
    sessions = database.session_maker(engine)
    store = DocumentStore(directory, sessions, StandIn(), tokenizer, NothingKept(), Reranker.load())
    await store.start()
    yield store
    await store.close()
    await engine.dispose()


async def added(store: DocumentStore, number: int) -> None:
    """Add a document, to the end."""
    added = await store.add(f"{number}.txt", document(number))
    async for _ in await store.watch(added.id):
        pass


def blocks(directory: Path) -> dict[Path, list[int]]:
    """A checksum a block of every file."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found[path] = [
                zlib.crc32(data[start : start + _BLOCK]) for start in range(0, len(data), _BLOCK)
            ]
    return found


def changed(before: dict[Path, list[int]], after: dict[Path, list[int]]) -> tuple[int, int]:
    """Bytes in blocks that changed in the files there were, and in blocks that are new."""
    rewritten = new = 0
    for path, sums in after.items():
        old = before.get(path, [])
        rewritten += sum(a != b for a, b in zip(old, sums, strict=False))
        new += max(0, len(sums) - len(old))
    return rewritten * _BLOCK, new * _BLOCK


async def scale(chunks: int, searches: int, directory: Path) -> dict[str, Any]:
    """A row: fill a store with so many chunks, search it, add one more document."""
    tokenizer = Tokenizer.load(services.EMBEDDED_MODEL)
    numbers = itertools.count()
    async with opened(directory, tokenizer) as store:
        began = time.perf_counter()
        for _ in range(chunks // SENTENCES):
            await added(store, next(numbers))
        filled = time.perf_counter() - began
        chance = random.Random(-1)
        milliseconds = []
        for _ in range(searches):
            question = f"Where is {sentence(chance)}"
            began = time.perf_counter()
            await store.search(question, 4, relevant=False)
            milliseconds.append(1000 * (time.perf_counter() - began))
        before = blocks(directory)
        total = _BLOCK * sum(map(len, before.values()))
        await added(store, next(numbers))
        rewritten, new = changed(before, blocks(directory))
        (doomed, *_) = await store.list()
        began = time.perf_counter()
        await store.delete(doomed.id)
        deleted = time.perf_counter() - began
    began = time.perf_counter()
    async with opened(directory, tokenizer):
        started = time.perf_counter() - began
    return {
        "chunks": chunks,
        "search_ms": round(float(np.median(milliseconds)), 2),
        "search_p95_ms": round(float(np.percentile(milliseconds, 95)), 2),
        "megabytes": round(total / 1e6, 1),
        "rewritten_share": round(rewritten / total, 5),
        "rewritten_kb": rewritten // 1000,
        "new_kb": new // 1000,
        "chunks_per_s": round(chunks / filled, 1),
        "delete_ms": round(1000 * deleted, 1),
        "start_s": round(started, 2),
    }


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
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    scaled = []
    for chunks in map(int, options.chunks.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            scaled.append(asyncio.run(scale(chunks, options.searches, Path(directory))))
    report.section("documents", scaled, title="documents, scale", notes=_NOTES)
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
