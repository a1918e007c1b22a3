"""Vectors on disk, a file a document: adding or removing one touches no other's bytes."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dragon.retrieval.index import IndexFileError, Vectors

_SUFFIX = ".safetensors"


class Segments:
    """The vectors of documents in a directory, by the documents' ids, which make the files' names.

    `fingerprint` is the embedder's, whose vectors have `dim` numbers: those of another are refused.
    """

    def __init__(self, directory: Path, fingerprint: str, dim: int) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self.dim = dim

    def write(self, document: str, ids: Sequence[int], vectors: Vectors) -> None:
        """Keep the vectors, float32 [n, dim], of a document's chunks, whole or not at all."""
        keys = np.asarray(ids, dtype=np.int64)
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        metadata = self._metadata(document, keys, vectors)
        data = save({"ids": keys, "vectors": vectors}, metadata)
        descriptor, temporary = tempfile.mkstemp(dir=self._directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(document))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def read(self, document: str) -> tuple[list[int], Vectors]:
        """The ids of a document's chunks and their vectors, float32 [n, dim].

        Raises IndexFileError if the file is missing, damaged, or another document's or embedder's.
        """
        path = self._path(document)
        try:
            with safe_open(path, framework="numpy") as file:
                ids, vectors = file.get_tensor("ids"), file.get_tensor("vectors")
                metadata = file.metadata()
        except (OSError, SafetensorError, ValueError) as error:
            raise IndexFileError(f"{path} is missing or damaged") from error
        if vectors.shape != (len(ids), self.dim):
            raise IndexFileError(f"{path} does not hold vectors of length {self.dim}")
        if metadata != self._metadata(document, ids, vectors):
            raise IndexFileError(f"{path} is damaged, or does not belong here")
        return ids.tolist(), vectors

    def remove(self, document: str) -> None:
        """Remove a document's file, if there is one."""
        self._path(document).unlink(missing_ok=True)

    def restrict(self, documents: set[str]) -> None:
        """Remove every file but those of these documents, what a kill left over included."""
        wanted = {self._path(document) for document in documents}
        for path in self._directory.iterdir():
            if path not in wanted:
                path.unlink()

    def _path(self, document: str) -> Path:
        return self._directory / f"{document}{_SUFFIX}"

    def _metadata(
        self, document: str, ids: npt.NDArray[np.int64], vectors: Vectors
    ) -> dict[str, str]:
        checksum = zlib.crc32(vectors.data, zlib.crc32(ids.data))
        return {"dragon": f"{checksum:08x} {self._fingerprint} {document}"}
