"""Reads a source's passages in parts, and embeds them in several processes."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path

from dragon.errors import StorageError
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import Vectors
from peer.corpus.passage_reader import SourceRecord
from peer.corpus.prebuilt import prebuilt

PART = 2048  # the least number of passages in a part, except the last; a kill loses the work on one


@dataclass(frozen=True)
class CorpusPassage:
    """A sentence of a document; `part` counts from 0 in each document."""

    record: SourceRecord
    part: int
    text: str
    context: str

    @property
    def embedded(self) -> str:
        """The passage as the embedder reads it."""
        return embedded_text(self.text, self.context)


def passages_of(record: SourceRecord) -> list[CorpusPassage]:
    return [
        CorpusPassage(record, part, piece.text, piece.context or record.title)
        for part, piece in enumerate(sentences([record.text]))
    ]


Part = list[CorpusPassage]


def parts(records: Iterable[SourceRecord], least: int) -> Iterator[Part]:
    """The passages of whole documents, at least `least` at a time."""
    part: Part = []
    for record in records:
        part += passages_of(record)
        if len(part) >= least:
            yield part
            part = []
    if part:
        yield part


def embedded(
    every: Iterable[Part], count: int, embedder: Path | None, source: Path
) -> Generator[tuple[Part, Vectors]]:
    """Parts in order with their vectors, from `count` processes with a model and a core each.

    At most two parts per process are in progress. Raises StorageError if a process dies.
    """
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (embedder, source))
    under_way: deque[tuple[Part, Future[Vectors]]] = deque()
    left = iter(every)
    try:
        while True:
            for part in itertools.islice(left, 2 * count - len(under_way)):
                texts = [passage.embedded for passage in part]
                under_way.append((part, pool.submit(_embed, texts)))
            if not under_way:
                return
            part, vectors = under_way.popleft()
            yield part, vectors.result()
    except BrokenProcessPool as error:
        raise StorageError(
            "An embedding process has died, perhaps for lack of memory. Run the same command "
            "again, with fewer --processes: it resumes where it was."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_vectors_of: Callable[[Sequence[str]], Vectors]  # a worker's


def _begin(embedder: Path | None, source: Path) -> None:
    global _vectors_of
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _vectors_of = prebuilt(source, Embedder.load(embedder))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _embed(texts: Sequence[str]) -> Vectors:
    return _vectors_of(texts)
