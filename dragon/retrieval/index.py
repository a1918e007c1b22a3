"""Vectors: nearest neighbours by inner product in memory, and files of each document's on disk.

Vectors are kept in half precision, which moves a cosine by at most 0.0005.
"""

from __future__ import annotations

import threading
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dragon.errors import DragonError
from dragon.whole_file import write_whole

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
        """The k nearest (id, inner product), `allowed` and not `hidden`, best first, ties by id."""
        with self._lock:
            query = np.ascontiguousarray(vector.reshape(1, self.dim), dtype=np.float32)
            scores, ids = self._faiss.search(query, k, params=_restricted(allowed, hidden))
        found = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        there = [hit for hit in found if hit[0] >= 0]  # faiss pads with -1
        return sorted(there, key=lambda hit: (-hit[1], hit[0]))

    def held(self, ids: Sequence[int]) -> set[int]:
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


_SUFFIX = ".safetensors"
_FORM = 2  # of files and vectors: other forms are refused


@dataclass(frozen=True)
class Segments:
    """The vectors of documents in a directory; file names begin with the document's id.

    `fingerprint` is the embedder's, whose vectors have `dim` numbers: others are refused. Numbers
    are stored in half precision.
    """

    directory: Path
    fingerprint: str
    dim: int

    def write(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Store the vectors [n, dim] of some of a document's chunks, all or nothing."""
        keys = np.asarray(ids, dtype=np.int64)
        halves = np.ascontiguousarray(vectors, dtype=np.float16)
        path = self.directory / f"{document}.{ids[0]}{_SUFFIX}"
        data = save({"ids": keys, "vectors": halves}, self._metadata(path, keys, halves))
        write_whole(path, data)

    def read(self, path: Path, known: Collection[int] | None = None) -> tuple[list[int], Vectors]:
        """The chunks' ids in a file, all of them `known`, and their vectors, float32 [n, dim].

        Raises IndexFileError if it is missing, damaged, or of other chunks or another embedder.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                ids, vectors = file.get_tensor("ids"), file.get_tensor("vectors")
                metadata = file.metadata()
        except (OSError, SafetensorError, ValueError) as error:
            raise IndexFileError(f"{path} is missing or damaged") from error
        if vectors.shape != (len(ids), self.dim):
            raise IndexFileError(f"{path} does not hold vectors of length {self.dim}")
        if metadata != self._metadata(path, ids, vectors):
            raise IndexFileError(f"{path} is damaged, or does not belong here")
        keys: list[int] = ids.tolist()
        if known is not None and not set(keys) <= set(known):
            raise IndexFileError(f"{path} is out of date")
        return keys, vectors.astype(np.float32)

    def of(self, document: str) -> list[Path]:
        return sorted(self.directory.glob(f"{document}.*{_SUFFIX}"))

    def remove(self, document: str) -> None:
        for path in self.of(document):
            path.unlink(missing_ok=True)

    def restrict(self, documents: Collection[str]) -> dict[str, list[Path]]:
        """Remove every file but those of these documents; returns the files by document."""
        kept = defaultdict(list)
        for path in sorted(self.directory.iterdir()):
            document, _, part = path.name.partition(".")
            if document in documents and part.endswith(_SUFFIX):
                kept[document].append(path)
            else:
                path.unlink()
        return kept

    def _metadata(
        self, path: Path, ids: npt.NDArray[np.int64], vectors: npt.NDArray[np.float16]
    ) -> dict[str, str]:
        checksum = zlib.crc32(vectors.data, zlib.crc32(ids.data))
        return {"dragon": f"{_FORM} {checksum:08x} {self.fingerprint} {path.stem}"}
