"""A store of many chunks: how fast it is searched, and what adding a document rewrites.

Vectors are a stand-in's, so that no time goes into embedding; all the rest is the device's own.
Counted are the blocks that changed in the files there were before, SQLite's log included.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.documents.store import DocumentStore
from app.owners import DEVICE, act_as
from app.storage import database
from dragon.inference.kv_store import KVStore
from dragon.retrieval.embedder import Passage
from dragon.retrieval.index import Vectors
from harness.adding import add
from harness.no_judge import NoJudge

DIM = 384
SENTENCES = 50
"""Chunks of a document that is added."""
_FILLING = 1000
"""Chunks of those that the store is filled with: each starts a parser, which takes a while."""

NOTES = (
    "`search_ms` is without embedding. `rewritten_share`: what changed in the files there were, "
    "SQLite's log included, of all bytes on disk, for a document of 50 chunks that is added, in "
    "the mean; `rewritten_max`: for the one that changed most. "
    "`new_kb` was appended, `written_kb` is all that was written for one."
)

_BLOCK = 4096
_WORDS = 20_000


class StandIn:
    """Random directions in place of embeddings, always the same for a text."""

    dim = DIM
    fingerprint = "stand-in"

    def embed_passages(self, passages: Sequence[Passage]) -> npt.NDArray[np.float32]:
        """Vectors of length 1, of each text by itself."""
        return self.embed([text for text, _ in passages])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, float32 [len(texts), dim]."""
        drawn = [np.random.default_rng(zlib.crc32(t.encode())).normal(size=DIM) for t in texts]
        vectors = np.asarray(drawn, dtype=np.float32).reshape(-1, DIM)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def sentence(chance: random.Random) -> str:
    """A sentence of common and of rare words, some of them codes."""
    words = [f"w{int(_WORDS ** chance.random())}" for _ in range(chance.randint(8, 16))]
    return f"The {' '.join(words)} of K{chance.randrange(10**6)}."


def document(number: int, sentences: int = SENTENCES) -> bytes:
    """A document with a sentence per line."""
    chance = random.Random(number)
    return "\n".join(sentence(chance) for _ in range(sentences)).encode()


@asynccontextmanager
async def opened(directory: Path) -> Any:
    """A running document store, for the device's own key."""
    act_as(DEVICE)
    url = database.database_url(directory)
    await asyncio.to_thread(database.migrate, url)
    engine = database.connect(url)
    sessions = database.session_maker(engine)
    store = DocumentStore(
        directory, sessions, StandIn(), KVStore(directory / "kv", None, 0), NoJudge()
    )
    await store.start()
    yield store
    await store.close()
    await engine.dispose()


async def added(store: DocumentStore, number: int, sentences: int = SENTENCES) -> None:
    """Add a document, and wait until it is processed."""
    added = await add(store, f"{number}.txt", document(number, sentences))
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


def written() -> int:
    """Bytes this process has written so far, as Linux counts them."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


async def growth(
    store: DocumentStore, directory: Path, numbers: Iterator[int], documents: int
) -> dict[str, Any]:
    """The effect on the files of adding documents, one after another."""
    shares, rewritten, new = [], [], []
    began = written()
    before = blocks(directory)
    for number in itertools.islice(numbers, documents):
        await added(store, number)
        after = blocks(directory)
        changed_bytes, new_bytes = changed(before, after)
        shares.append(changed_bytes / (_BLOCK * sum(map(len, before.values()))))
        rewritten.append(changed_bytes)
        new.append(new_bytes)
        before = after
    return {
        "megabytes": round(_BLOCK * sum(map(len, before.values())) / 1e6, 1),
        "rewritten_share": round(float(np.mean(shares)), 5),
        "rewritten_max": round(max(shares), 5),
        "rewritten_kb": round(np.mean(rewritten) / 1000),
        "new_kb": round(np.mean(new) / 1000),
        "written_kb": round((written() - began) / documents / 1000),
    }


async def scale(chunks: int, searches: int, documents: int, directory: Path) -> dict[str, Any]:
    """A row: fill a store with chunks, search it, add more documents, delete one."""
    numbers = itertools.count()
    async with opened(directory) as store:
        began = time.perf_counter()
        for start in range(0, chunks, _FILLING):
            await added(store, next(numbers), min(_FILLING, chunks - start))
        filled = time.perf_counter() - began
        chance = random.Random(-1)
        milliseconds = []
        for _ in range(searches):
            question = f"Where is {sentence(chance)}"
            began = time.perf_counter()
            await store.search(question, 4, relevant=False)
            milliseconds.append(1000 * (time.perf_counter() - began))
        grown = await growth(store, directory, numbers, documents)
        (doomed, *_) = await store.list()
        began = time.perf_counter()
        await store.delete(doomed.id)
        deleted = time.perf_counter() - began
    began = time.perf_counter()
    async with opened(directory):
        started = time.perf_counter() - began
    return {
        "chunks": chunks,
        "search_ms": round(float(np.median(milliseconds)), 2),
        "search_p95_ms": round(float(np.percentile(milliseconds, 95)), 2),
        **grown,
        "chunks_per_s": round(chunks / filled, 1),
        "delete_ms": round(1000 * deleted, 1),
        "start_s": round(started, 2),
    }
