"""Vectors on disk, in files per document: adding or removing one touches no other's bytes.

A document has a file for every part, written once all of the part's vectors exist, so that a long
document that was interrupted continues where it was.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dragon.retrieval.index import IndexFileError, Vectors
from dragon.whole_file import write_whole

_SUFFIX = ".safetensors"
_FORM = 2  # of files and vectors: other forms are refused


class Segments:
    """The vectors of documents in a directory; file names begin with the document's id.

    `fingerprint` is the embedder's, whose vectors have `dim` numbers: others are refused. Numbers
    are stored in half precision.
    """

    def __init__(self, directory: Path, fingerprint: str, dim: int) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self.dim = dim

    def write(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Store the vectors [n, dim] of some of a document's chunks, all or nothing."""
        keys = np.asarray(ids, dtype=np.int64)
        halves = np.ascontiguousarray(vectors, dtype=np.float16)
        path = self._directory / f"{document}.{ids[0]}{_SUFFIX}"
        data = save({"ids": keys, "vectors": halves}, self._metadata(path, keys, halves))
        write_whole(path, data)

    def read(self, path: Path) -> tuple[list[int], Vectors]:
        """The chunks' ids in a file and their vectors, float32 [n, dim].

        Raises IndexFileError if it is missing, damaged, or of another document or embedder.
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
        return ids.tolist(), vectors.astype(np.float32)

    def of(self, document: str) -> list[Path]:
        """A document's files."""
        return sorted(self._directory.glob(f"{document}.*{_SUFFIX}"))

    def remove(self, document: str) -> None:
        """Remove a document's files."""
        for path in self.of(document):
            path.unlink(missing_ok=True)

    def restrict(self, documents: Collection[str]) -> dict[str, list[Path]]:
        """Remove every file except those of these documents, including what a kill left over.

        Returns the files by document.
        """
        kept = defaultdict(list)
        for path in sorted(self._directory.iterdir()):
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
        return {"dragon": f"{_FORM} {checksum:08x} {self._fingerprint} {path.stem}"}
