"""A part of a version: its passages, their words and their vectors, searched on disk.

passages.db     SQLite: passages, full text, and the number of passages with each word
ids.i64         the passages' ids, ascending
lengths.u32     the number of words of each, title and text
vectors.f16     the passages' vectors
ivfpq.faiss     an index of them; without it all are kept in memory
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragon.retrieval.index import Vectors
from dragon.retrieval.passages import REACH
from peer.corpus.disk_index import DiskIndex, VectorFile

PASSAGES, IDS, LENGTHS, VECTORS, INDEX = FILES = (
    "passages.db",
    "ids.i64",
    "lengths.u32",
    "vectors.f16",
    "ivfpq.faiss",
)

Scored = tuple[int, float]
"""A passage's id and its score."""

# k1 and b of BM25, as in SQLite's own ranking.
_SATURATION, _BY_LENGTH = 1.2, 0.75


class Row(NamedTuple):
    """A stored passage."""

    id: int
    document: str
    title: str
    text: str
    context: str


class Shard:
    """A shard opened for search. Thread-safe. Raises OSError, sqlite3.Error, IndexFileError."""

    def __init__(self, directory: Path, dimension: int) -> None:
        self._ids = _mapped(directory / IDS, "<i8")
        self._lengths = _mapped(directory / LENGTHS, "<u4")
        self._file = VectorFile(directory / VECTORS, self._ids, dimension)
        index = directory / INDEX
        self._index = DiskIndex(index, self._file) if index.exists() else self._file.in_memory()
        uri = (directory / PASSAGES).resolve().as_uri() + "?mode=ro&immutable=1"
        self._passages = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._passages.execute(
            "CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, passages_fts, instance)"
        )
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def close(self) -> None:
        """Close the files; no search is possible afterwards."""
        self._passages.close()
        self._file.close()

    def nearest(self, vector: Vectors, k: int) -> list[Scored]:
        """The k passages whose vectors are nearest to one [dim], best first, ties by id."""
        return self._index.search(vector, k)

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """How many passages have each word; words that none has are left out."""
        places = ", ".join("?" * len(words))
        statement = f"SELECT word, passages FROM frequencies WHERE word IN ({places})"  # noqa: S608
        return dict(self._rows(statement, words))

    def worded(self, weights: Mapping[str, float], mean: float, k: int) -> list[Scored]:
        """The k best passages by BM25, best first, ties by id.

        `weights` are the words' inverse document frequencies, `mean` is the mean number of words
        per passage. Both are of the whole corpus, so that scores compare between shards.
        """
        found, scores = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for word, weight in weights.items():
            places = self._rows("SELECT doc FROM places WHERE term = ?", [word])
            ids, counts = np.unique(
                np.fromiter(itertools.chain.from_iterable(places), np.int64, len(places)),
                return_counts=True,
            )
            lengths = self._lengths[np.searchsorted(self._ids, ids)]
            damped = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * lengths / mean)
            found.append(ids)
            scores.append(weight * counts * (_SATURATION + 1) / (counts + damped))
        ids, where = np.unique(np.concatenate(found), return_inverse=True)
        sums = np.bincount(where, np.concatenate(scores), len(ids))
        best = np.lexsort((ids, -sums))[:k]
        return list(zip(ids[best].tolist(), sums[best].tolist(), strict=True))

    def passages(self, ids: Sequence[int]) -> list[Row]:
        """Passages by their ids."""
        places = ", ".join("?" * len(ids))
        columns = ", ".join(Row._fields)
        statement = f"SELECT {columns} FROM passages WHERE id IN ({places})"  # noqa: S608
        return [Row._make(row) for row in self._rows(statement, ids)]

    def vectors(self, ids: Sequence[int]) -> Vectors:
        """The vectors [n, dim] of passages by their ids."""
        return self._file.vectors(ids)

    def near(self, document: str, passage: int) -> list[Row]:
        """The passages of a document around one of them, in order, itself among them."""
        columns = ", ".join(Row._fields)
        statement = (
            f"SELECT {columns} FROM passages "  # noqa: S608
            "WHERE document = ? AND id BETWEEN ? AND ? ORDER BY id"
        )
        found = self._rows(statement, [document, passage - REACH, passage + REACH])
        return [Row._make(row) for row in found]

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._lock:
            return self._passages.execute(statement, values).fetchall()


def _mapped(path: Path, kind: str) -> npt.NDArray[Any]:
    """A memory-mapped array of a file, which may be empty."""
    if not path.stat().st_size:
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")
