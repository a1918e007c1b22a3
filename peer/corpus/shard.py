"""A part of a version: its passages, their words and their vectors, searched and written on disk.

passages.db     SQLite: passages, full text, and the number of passages with each word
ids.i64         the passages' ids, ascending
lengths.u32     the number of words of each, title and text
vectors.f16     the passages' vectors
ivfpq.faiss     FAISS IVF-PQ over them; without it all are kept in memory

The index's inverted lists, with codes of 64 bytes per vector, are memory-mapped and find
candidates; the candidates' vectors are read from their file and compared as in `VectorIndex`.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from dragon.retrieval.find import REACH
from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors
from dragon.retrieval.lexical import TOKENIZER
from peer.corpus.parts import CorpusPassage
from peer.corpus.passage_reader import MalformedLineError

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


class StoredPassage(NamedTuple):
    """A stored passage."""

    id: int
    document: str
    title: str
    text: str
    context: str


Ids = npt.NDArray[np.int64]

_CODE_BYTES = 64
_TRAINED_ON = 64  # vectors per inverted list
_BLOCK = 16_384
_PROBES, _READ = 224, 256


class VectorFile:
    """Vectors in half precision in the order of their ids, read one at a time.

    They are not memory-mapped: for each page read, the system would map 15 more, and most of the
    file would soon be resident.
    """

    def __init__(self, path: Path, ids: Ids, dim: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._ids = ids
        self.dim = dim

    def __len__(self) -> int:
        return len(self._ids)

    def close(self) -> None:
        self._file.close()

    def vectors(self, ids: Sequence[int]) -> Vectors:
        """The vectors [n, dim] of ids, which must all exist."""
        size = 2 * self.dim
        read = bytearray(size * len(ids))
        rows = memoryview(read)
        places = np.searchsorted(self._ids, np.asarray(ids, dtype=np.int64)).tolist()
        for row, place in enumerate(places):
            os.preadv(self._file.fileno(), [rows[row * size : (row + 1) * size]], place * size)
        return np.frombuffer(read, "<f2").astype(np.float32).reshape(-1, self.dim)

    def blocks(self) -> Iterator[tuple[Ids, Vectors]]:
        """All ids and vectors [n, dim], in order."""
        for start in range(0, len(self), _BLOCK):
            ids = np.asarray(self._ids[start : start + _BLOCK])
            size = 2 * self.dim * len(ids)
            halves = os.pread(self._file.fileno(), size, 2 * self.dim * start)
            yield ids, np.frombuffer(halves, "<f2").astype(np.float32).reshape(-1, self.dim)

    def in_memory(self) -> VectorIndex:
        index = VectorIndex(self.dim)
        for ids, vectors in self.blocks():
            index.add(ids.tolist(), vectors)
        return index


class DiskIndex:
    """An index of `vectors`, which probes lists for `read` candidates to compare. Thread-safe."""

    def __init__(
        self, path: Path, vectors: VectorFile, probes: int = _PROBES, read: int = _READ
    ) -> None:
        try:
            index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise IndexFileError(f"{path} is missing or damaged") from error
        lists: Any = faiss.downcast_InvertedLists(index.invlists)
        # It would start 32 threads per search to read ahead, for a third of the search's time.
        lists.prefetch_nthread = 0
        self._faiss = index
        self._full = vectors
        self._probes = probes
        self._read = read

    def search(self, vector: Vectors, k: int) -> list[tuple[int, float]]:
        """The k nearest (id, inner product) to a vector [dim], best first, ties by id."""
        query = np.ascontiguousarray(vector.reshape(1, -1), dtype=np.float32)
        probed = faiss.SearchParametersIVF(nprobe=self._probes)  # type: ignore[call-arg]
        _, ids = self._faiss.search(query, max(k, self._read), params=probed)
        found = sorted(key for key in ids[0].tolist() if key >= 0)  # faiss pads with -1
        exact = VectorIndex(self._full.dim)
        if found:
            exact.add(found, self._full.vectors(found))
        return exact.search(vector, k)


def build_index(path: Path, vectors: VectorFile, advance: Callable[[int], None]) -> None:
    """Write an index of at least 256 vectors; `advance` is told of those added. Raises OSError."""
    count, dim = len(vectors), vectors.dim
    lists = 2 * math.isqrt(count)
    coarse = faiss.IndexFlatIP(dim)
    # The largest code size that divides the dimension.
    parts = max(n for n in range(1, min(_CODE_BYTES, dim) + 1) if dim % n == 0)
    index = faiss.IndexIVFPQ(coarse, dim, lists, parts, 8, faiss.METRIC_INNER_PRODUCT)
    index.train(_sample(vectors, min(count, _TRAINED_ON * lists)))
    for ids, block in vectors.blocks():
        index.add_with_ids(block, ids)
        advance(len(ids))
    draft = path.with_suffix(".part")
    try:
        faiss.write_index(index, str(draft))
    except RuntimeError as error:  # faiss's own error, with the system's message
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(draft)) from error
        raise
    draft.replace(path)


def _sample(vectors: VectorFile, count: int) -> Vectors:
    """A sample of `count` vectors, the same each time."""
    drawn = np.zeros(len(vectors), dtype=bool)
    drawn[np.random.default_rng(0).choice(len(vectors), count, replace=False)] = True
    taken, start = np.empty((count, vectors.dim), dtype=np.float32), 0
    filled = 0
    for ids, block in vectors.blocks():
        some = block[drawn[start : start + len(ids)]]
        taken[filled : filled + len(some)] = some
        start, filled = start + len(ids), filled + len(some)
    return taken


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

    def passages(self, ids: Sequence[int]) -> list[StoredPassage]:
        return self._stored(f"id IN ({', '.join('?' * len(ids))})", ids)

    def vectors(self, ids: Sequence[int]) -> Vectors:
        """The vectors [n, dim] of passages by their ids."""
        return self._file.vectors(ids)

    def near(self, document: str, passage: int) -> list[StoredPassage]:
        """The passages of a document around one of them, in order, itself among them."""
        condition = "document = ? AND id BETWEEN ? AND ? ORDER BY id"
        return self._stored(condition, [document, passage - REACH, passage + REACH])

    def _stored(self, condition: str, values: Sequence[object]) -> list[StoredPassage]:
        columns = ", ".join(StoredPassage._fields)
        statement = f"SELECT {columns} FROM passages WHERE {condition}"  # noqa: S608
        return [StoredPassage._make(row) for row in self._rows(statement, values)]

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._lock:
            return self._passages.execute(statement, values).fetchall()


def _mapped(path: Path, kind: str) -> npt.NDArray[Any]:
    """A memory-mapped array of a file, which may be empty."""
    if not path.stat().st_size:
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")


_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    context TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS passages_fts USING fts5(
    title, text, content='passages', content_rowid='id', tokenize='{TOKENIZER}'
);
CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, passages_fts, row);
CREATE TABLE IF NOT EXISTS frequencies (word TEXT PRIMARY KEY, passages INTEGER) WITHOUT ROWID;
"""


class ShardWriter:
    """Writes a shard, continuing what the directory holds; `parts` are already in it.

    Each part is added all or nothing: its vectors are on disk before its rows are committed,
    together with the number of parts, and vectors without rows are truncated. Raises OSError and
    sqlite3.Error.
    """

    def __init__(self, directory: Path, dimension: int) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._dimension = dimension
        self._passages = sqlite3.connect(directory / PASSAGES, isolation_level=None)
        self._passages.executescript(_SCHEMA)
        (self.parts,) = self._passages.execute("PRAGMA user_version").fetchone()
        (rows,) = self._passages.execute("SELECT count(*) FROM passages").fetchone()
        self._vectors = (directory / VECTORS).open("ab")
        self._vectors.truncate(2 * dimension * rows)

    def close(self) -> None:
        self._passages.close()
        self._vectors.close()

    def begin(self) -> None:
        """Restart the count of parts, for another source."""
        self._passages.execute("PRAGMA user_version = 0")
        self.parts = 0

    def add(self, ids: Sequence[int], passages: Sequence[CorpusPassage], vectors: Vectors) -> None:
        """Add the shard's passages of the next part; their ids are higher than all before.

        `vectors` are float32 [n, dim]. Raises MalformedLineError for a duplicate document.
        """
        self._vectors.write(vectors.astype("<f2").tobytes())
        self._vectors.flush()
        os.fsync(self._vectors.fileno())
        self._passages.execute("BEGIN")
        for key, passage in zip(ids, passages, strict=True):
            record = passage.record
            if passage.part == 0:
                self._add_document(record.id, record.line)
            row = (key, record.id, record.title, passage.text, passage.context)
            self._passages.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", row)
            self._passages.execute(
                "INSERT INTO passages_fts (rowid, title, text) VALUES (?, ?, ?)",
                (key, record.title, passage.text),
            )
        self._passages.execute(f"PRAGMA user_version = {self.parts + 1}")
        self._passages.execute("COMMIT")
        self.parts += 1

    def _add_document(self, name: str, line: int) -> None:
        try:
            self._passages.execute("INSERT INTO documents VALUES (?)", (name,))
        except sqlite3.IntegrityError:
            raise MalformedLineError(line, f"the id '{name}' occurred before") from None

    def finish(self, flat_up_to: int, advance: Callable[[int], None]) -> tuple[int, int]:
        """Write the files that need all passages; returns the numbers of passages and words.

        More than `flat_up_to` vectors get an index; `advance` is called with the number of passages
        done. An index that was finished before is not built again.
        """
        self._passages.execute("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')")
        self._passages.execute("BEGIN")
        self._passages.execute("DELETE FROM frequencies")
        self._passages.execute("INSERT INTO frequencies SELECT term, doc FROM temp.vocabulary")
        self._passages.execute("COMMIT")
        sizes = self._passages.execute("SELECT id, sz FROM passages_fts_docsize ORDER BY id")
        kinds = np.dtype([("id", "<i8"), ("length", "<u4")])
        found = np.fromiter(((key, sum(_numbers(packed))) for key, packed in sizes), kinds)
        found["id"].tofile(self._directory / IDS)
        found["length"].tofile(self._directory / LENGTHS)
        index = self._directory / INDEX
        if len(found) <= flat_up_to:
            index.unlink(missing_ok=True)
            advance(len(found))
        elif index.exists():
            advance(len(found))
        else:
            vectors = VectorFile(self._directory / VECTORS, found["id"], self._dimension)
            build_index(index, vectors, advance)
            vectors.close()
        return len(found), int(found["length"].sum())


def _numbers(packed: bytes) -> list[int]:
    """Decode SQLite's varints: seven bits per byte, the last byte without the eighth bit."""
    numbers, value = [], 0
    for byte in packed:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    return numbers
