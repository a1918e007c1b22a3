"""Nearest neighbours among vectors that stay on disk: FAISS IVF-PQ, re-ranked by full vectors.

Inverted lists with codes of 64 bytes per vector are memory-mapped and find candidates; the
candidates' vectors are read from their file and compared as in `VectorIndex`.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from dragon.retrieval.index import IndexFileError, VectorIndex, Vectors

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
        """The vectors [n, dim] of ids, all of which must exist."""
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
    """An index written by `build`, over the vectors it was built from. Thread-safe.

    A query probes `probes` inverted lists and compares `read` candidates.
    """

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


def build(path: Path, vectors: VectorFile, advance: Callable[[int], None]) -> None:
    """Write an index of all vectors, of which there must be at least 256.

    `advance` is called with the number of vectors added. Raises OSError.
    """
    count, dim = len(vectors), vectors.dim
    lists = 2 * math.isqrt(count)
    coarse = faiss.IndexFlatIP(dim)
    # The largest code size of which the dimension is a multiple.
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
