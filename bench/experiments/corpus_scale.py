"""A corpus that outgrows memory: `python -m bench.corpus_scale DATA [--passages 100000 1000000]`

DATA is a folder with WikiText-2 (`wikitext-2/train.txt.xz` and `valid.txt`) and books
(`books.txt.xz`, a form feed between two), which are cut up into as many passages as are asked for.
Embedding a million takes hours, so `--embedded` of them are, and the rest have vectors drawn around
those: one of them and a share of the difference of two others. Corpora are built by the product,
and the same files are searched twice: by their index, and flat, by comparing all vectors. Questions
are sentences of WikiText's validation split, and their own embeddings.

Each build and each way of searching has a process of its own, whose memory is what it has beyond
what it had before. `--work` keeps corpora and embeddings for another run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import multiprocessing
import os
import re
import resource
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from bench.lib import report
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder, Passage
from dragon.retrieval.index import Vectors
from harness.memory import resident
from peer.corpus.builder import Sharding, build
from peer.corpus.shard import INDEX
from peer.corpus.store import Corpus
from peer.corpus.versions import MANIFEST, Manifest

PAPERS = 21_015_300
"""Passages of DRAGON, arXiv 2504.11197."""
WANTED, COUNTED = 32, 5
"""How many hits the peer wants of its index, and over how many the recall is counted."""
_AROUND = 0.6
"""The share of the difference: the cosine with the one is then 0.78 in the median."""
_DOCUMENT = 20_000  # characters of a book, at least
_QUESTIONS = 150
_NOTES = """`build_s` is without embedding; of it `index_s` for the index. `nearest_ms`, `words_ms`
and `whole_ms` are medians of a search by vectors, by words, and of both with what is read of the
passages found. `memory_mb` is what a process has more once it has answered all questions.
`recall` is that of the five nearest. The line goes through the two largest corpora."""


class StandIn:
    """Stands in for the embedder: vectors near real embeddings, always the same for a text."""

    fingerprint = "stand-in"

    def __init__(self, centres: Path) -> None:
        self._centres = np.load(centres).astype(np.float32)
        self.dim = self._centres.shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, float32 [len(texts), dim]."""
        hashes = np.array([zlib.crc32(text.encode()) for text in texts], dtype=np.uint64)
        drawn = [(hashes * np.uint64(odd)) >> np.uint64(9) for odd in (2654435761, 40503, 69621)]
        one, other, third = (self._centres[each % np.uint64(len(self._centres))] for each in drawn)
        around = one + _AROUND * (other - third)
        unit: Vectors = around / np.linalg.norm(around, axis=1, keepdims=True)
        return unit

    def embed_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Vectors of each passage by itself."""
        return self.embed([embedded_text(*passage) for passage in passages])


def documents(data: Path) -> Iterator[str]:
    """The articles of WikiText, then pieces of the books."""
    with lzma.open(data / "wikitext-2" / "train.txt.xz", "rt", encoding="utf-8") as file:
        yield from (part for part in re.split(r"\n(?= = [^=])", file.read()) if part.strip())
    with lzma.open(data / "books.txt.xz", "rt", encoding="utf-8") as file:
        piece = ""
        for line in file:
            piece += line.replace("\f", "\n")
            if len(piece) >= _DOCUMENT and not line.strip():
                yield piece
                piece = ""


def write_source(path: Path, data: Path, passages: int) -> None:
    """Write a source of at least so many passages, as JSON Lines."""
    count, draft = 0, path.with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        for number, text in enumerate(documents(data)):
            file.write(json.dumps({"id": number, "title": "", "text": text}) + "\n")
            count += len(sentences([text]))
            if count >= passages:
                break
    draft.rename(path)


def embedded(work: Path, data: Path, count: int) -> Path:
    """Embed `count` passages drawn from all of the data; the file of their vectors."""
    path = work / "centres.npy"
    if not path.exists():
        texts = [
            embedded_text(each.text, each.context)
            for text in itertools.islice(documents(data), 0, None, 10)
            for each in sentences([text])
        ]
        chosen = np.random.default_rng(0).choice(len(texts), count, replace=False)
        vectors = Embedder.load().embed([texts[place] for place in chosen])
        np.save(path, vectors.astype(np.float16))
    return path


@dataclass(frozen=True)
class Questions:
    """Texts, and their embeddings [n, dim]."""

    texts: list[str]
    vectors: Vectors

    @classmethod
    def of(cls, work: Path, data: Path) -> Questions:
        """Sentences that are in no corpus."""
        valid = (data / "wikitext-2" / "valid.txt").read_text(encoding="utf-8")
        found = [embedded_text(each.text, each.context) for each in sentences([valid])]
        chosen = np.random.default_rng(1).choice(len(found), _QUESTIONS, replace=False)
        texts, path = [found[place] for place in chosen], work / "questions.npy"
        if not path.exists():
            np.save(path, Embedder.load().embed(texts))
        return cls(texts, np.load(path))


def built(source: Path, out: Path, centres: Path) -> dict[str, Any]:
    """Build a corpus with an index; seconds and megabytes."""
    before, began = resident(os.getpid()), time.perf_counter()
    with Progress(disable=True) as progress:
        manifest = build(
            source, out, StandIn(centres), Sharding(flat_up_to=10_000), progress=progress
        )
        seconds = time.perf_counter() - began
        *_, indexing = progress.tasks
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "passages": manifest.passages,
        "build_s": round(seconds),
        "index_s": round(indexing.finished_time or 0.0),
        "build_mb": round(peak - before),
        "disk_mb": round(sum(file.bytes for file in manifest.files.values()) / 1e6),
    }


def without_index(corpus: Path, out: Path) -> Path:
    """The same corpus, flat: links to its files but for the index."""
    manifest = Manifest.read(corpus / "v1")
    shutil.rmtree(out, ignore_errors=True)
    kept = {name: file for name, file in manifest.files.items() if not name.endswith(INDEX)}
    for name in kept:
        link = out / "v1" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(corpus / "v1" / name)
    kept_manifest = manifest.model_copy(update={"files": kept})
    (out / "v1" / MANIFEST).write_text(kept_manifest.model_dump_json(), encoding="utf-8")
    (out / "current").write_text("v1\n", encoding="utf-8")
    return out


def searched(root: Path, questions: Questions) -> dict[str, Any]:
    """Ask everything of a corpus: milliseconds, megabytes, and the nearest of each question."""
    before, began = resident(os.getpid()), time.perf_counter()
    corpus = Corpus.open(root)
    opened = time.perf_counter() - began
    asked = list(zip(questions.texts, questions.vectors, strict=True))
    nearest, near_ms = timed(lambda each: corpus.nearest(each[1], WANTED), asked)
    near_mb = resident(os.getpid()) - before
    _, words_ms = timed(lambda each: corpus.worded(each[0], WANTED), asked)
    _, whole_ms = timed(lambda each: corpus.search(each[0], each[1], 2), asked)
    return {
        "nearest": [[key for key, _ in found] for found in nearest],
        "open_s": round(opened, 1),
        "nearest_ms": float(np.median(near_ms)),
        "nearest_p95_ms": float(np.percentile(near_ms, 95)),
        "words_ms": float(np.median(words_ms)),
        "whole_ms": float(np.median(whole_ms)),
        "nearest_mb": round(near_mb),
        "memory_mb": round(resident(os.getpid()) - before),
    }


def timed(ask: Callable[[Any], Any], asked: Sequence[Any]) -> tuple[list[Any], list[float]]:
    """What each call returns, and its milliseconds."""
    found, milliseconds = [], []
    for each in asked:
        began = time.perf_counter()
        found.append(ask(each))
        milliseconds.append(1000 * (time.perf_counter() - began))
    return found, milliseconds


def measured(
    alone: Callable[..., Any], work: Path, data: Path, passages: int, embeddings: int
) -> list[dict[str, Any]]:
    """The rows of one size."""
    source, corpus = work / f"{passages}.jsonl", work / f"corpus-{passages}"
    if not source.exists():
        write_source(source, data, passages)
    centres = alone(embedded, work, data, embeddings)
    questions = alone(Questions.of, work, data)
    kept = corpus.with_suffix(".json")
    if not kept.exists():
        kept.write_text(json.dumps(alone(built, source, corpus, centres)), encoding="utf-8")
    built_row = json.loads(kept.read_text(encoding="utf-8"))
    rows, best = [], None
    for kind, root in (("flat", without_index(corpus, work / "flat")), ("index", corpus)):
        row = alone(searched, root, questions)
        nearest = [set(each[:COUNTED]) for each in row.pop("nearest")]
        best = best or nearest
        shared = [len(one & other) / COUNTED for one, other in zip(best, nearest, strict=True)]
        own = built_row if kind == "index" else {"passages": built_row["passages"]}
        rows.append({"kind": kind, **own, "recall": float(np.mean(shared)), **row})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def line(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Extrapolate from the two largest corpora of a kind to the paper's size."""
    one, two = rows[-2:]
    along = (PAPERS - two["passages"]) / (two["passages"] - one["passages"])
    told = ("build_s", "index_s", "build_mb", "disk_mb", "open_s", "nearest_mb", "memory_mb")
    grown = {
        name: round(two[name] + along * (two[name] - one[name])) for name in told if name in two
    }
    return {"kind": f"{two['kind']}, line", "passages": PAPERS, **grown}


def main() -> None:
    """Build, search, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--passages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--embedded", type=int, default=24_000)
    parser.add_argument("--work", type=Path, help="default: a folder that is removed afterwards")
    options = parser.parse_args()
    os.nice(10)
    with ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)

        def alone(function: Callable[..., Any], *given: Any) -> Any:
            """Call it in a process of its own."""
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                return pool.submit(function, *given).result()

        sizes = [measured(alone, work, options.data, n, options.embedded) for n in options.passages]
    rows = [row for kind in zip(*sizes, strict=True) for row in kind]
    if len(sizes) > 1:
        rows += [line(list(kind)) for kind in zip(*sizes, strict=True)]
    load = f"Load by `uptime`: {os.getloadavg()[1]:.1f}."
    flat, index = sizes[-1]
    report.section("corpus_scale", rows, notes=f"{_NOTES} {load}", columns=list(index))
    small = sizes[0][1]
    print(
        json.dumps(
            {
                "recall": index["recall"],
                "memory_of_flat": round(index["memory_mb"] / flat["memory_mb"], 3),
                "nearest_of_flat": round(index["nearest_ms"] / flat["nearest_ms"], 3),
                "whole_of_flat": round(index["whole_ms"] / flat["whole_ms"], 3),
                "growth": round(index["whole_ms"] / small["whole_ms"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
