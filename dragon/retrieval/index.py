"""Nearest neighbours by inner product among all vectors, in memory.

Vectors are kept in half precision, which moves a cosine by at most 0.0005.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import faiss
import numpy as np
import numpy.typing as npt

from dragon.errors import DragonError

Vectors = npt.NDArray[np.float32]


class IndexFileError(DragonError):
    """An index file is missing, damaged or of another kind; it must be built again."""

    code = "index_file_unreadable"


class VectorIndex:
    """A FAISS `IndexIDMap2`: vectors under the caller's ids. Thread-safe."""

    def __init__(self, dim: int) -> None:
        half, inner = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        self._faiss = faiss.IndexIDMap2(faiss.IndexScalarQuantizer(dim, half, inner))
        self._lock = threading.Lock()
        self.dim = dim

    def __len__(self) -> int:
        return int(self._faiss.ntotal)

    def add(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Add vectors, float32 [n, dim]. The ids must be new, which is not checked."""
        if vectors.shape != (len(ids), self.dim):
            raise ValueError(f"{vectors.shape} is not ({len(ids)}, {self.dim})")
        if not ids:
            return
        keys = np.asarray(ids, dtype=np.int64)
        with self._lock:
            self._faiss.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), keys)

    def remove(self, ids: Sequence[int]) -> int:
        """Remove those of `ids` that exist, and return how many did."""
        if not ids:
            return 0
        with self._lock:
            unwanted = faiss.IDSelectorBatch(np.asarray(ids, dtype=np.int64))
            return int(self._faiss.remove_ids(unwanted))

    def search(
        self,
        vector: Vectors,
        k: int,
        allowed: Sequence[int] | None = None,
        hidden: Sequence[int] = (),
    ) -> list[tuple[int, float]]:
        """The k nearest (id, inner product) to a vector [dim], best first; fewer if it holds fewer.

        Only `allowed` ids, if given, and no `hidden` ones.

        Equal scores are ordered by id, so that the same contents give the same result whatever the
        order they were added in.
        """
        with self._lock:
            k = min(k, len(self))
            if k == 0:
                return []
            query = np.ascontiguousarray(vector.reshape(1, self.dim), dtype=np.float32)
            scores, ids = self._faiss.search(query, k, params=_restricted(allowed, hidden))
        found = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        there = [hit for hit in found if hit[0] >= 0]  # faiss pads with -1
        return sorted(there, key=lambda hit: (-hit[1], hit[0]))

    def held(self, ids: Sequence[int]) -> set[int]:
        """Those of `ids` that exist."""
        with self._lock:
            there = faiss.vector_to_array(self._faiss.id_map)
        return set(np.intersect1d(there, np.asarray(ids, dtype=np.int64)).tolist())

    def vectors(self, ids: Sequence[int]) -> dict[int, Vectors]:
        """The vectors [dim] of those of `ids` that exist."""
        found = {}
        with self._lock:
            for key in ids:
                with suppress(RuntimeError):  # removed meanwhile
                    found[key] = np.asarray(self._faiss.reconstruct(key), dtype=np.float32)
        return found


def _restricted(
    allowed: Sequence[int] | None, hidden: Sequence[int]
) -> faiss.SearchParameters | None:
    if allowed is not None:
        keys = np.setdiff1d(np.asarray(allowed, dtype=np.int64), hidden)
        selector: faiss.IDSelector = faiss.IDSelectorBatch(keys)
    elif hidden:
        selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(np.asarray(hidden, dtype=np.int64)))
    else:
        return None
    return faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
