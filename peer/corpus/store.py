"""The public corpus: a directory with vectors, passages and metadata.

Its files are `vectors.faiss`, `passages.db` (SQLite; a passage's id is also that of its vector and
its full-text row) and `meta.json`. peer.corpus.builder writes it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dragon.errors import ConfigurationError
from dragon.retrieval.duplicates import distinct
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import IndexFileError, VectorIndex
from dragon.retrieval.lexical import fused, match_expression
from dragon.retrieval.passages import REACH
from dragon.retrieval.ranking import CANDIDATES
from dragon.retrieval.relevance import Hit
from peer.corpus.meta import META, VERSION, CorpusInfo

VECTORS, PASSAGES = "vectors.faiss", "passages.db"


class _Row(NamedTuple):
    id: int
    document: str
    title: str
    text: str
    context: str


class Corpus:
    """A corpus opened for search. Thread-safe."""

    def __init__(self, info: CorpusInfo, index: VectorIndex, passages: sqlite3.Connection) -> None:
        self._info = info
        self._index = index
        self._passages = passages
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, embedder: Embedder | None = None) -> Self:
        """Open a corpus; with `embedder`, check that its vectors are that embedder's.

        Raises ConfigurationError, saying what to do, if there is no corpus, or one that is damaged,
        of another version, or built with another embedder.
        """
        again = "Build it again with `dragon corpus build`."
        try:
            info = CorpusInfo(**json.loads((path / META).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigurationError(f"There is no corpus at {path}. {again}") from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigurationError(f"{path / META} cannot be read. {again}") from error
        if info.version != VERSION:
            message = f"The corpus at {path} has version {info.version}, not {VERSION}. {again}"
            raise ConfigurationError(message)
        if embedder is not None and embedder.fingerprint != info.embedder:
            raise ConfigurationError(
                f"The corpus at {path} has another embedder's vectors. {again}"
            )
        uri = (path / PASSAGES).resolve().as_uri() + "?mode=ro&immutable=1"
        try:
            index = VectorIndex.load(path / VECTORS, info.dimension)
            passages = sqlite3.connect(uri, uri=True, check_same_thread=False)
            (count,) = passages.execute("SELECT count(*) FROM passages").fetchone()
        except (IndexFileError, sqlite3.Error) as error:
            raise ConfigurationError(f"The corpus at {path} is damaged. {again}") from error
        if not len(index) == count == info.passages:
            raise ConfigurationError(f"The corpus at {path} is damaged. {again}")
        return cls(info, index, passages)

    def close(self) -> None:
        """Close the files; no search is possible afterwards."""
        self._passages.close()

    def info(self) -> CorpusInfo:
        """The contents of the corpus and the embedder it was built with."""
        return self._info

    def search(self, query: str, vector: npt.NDArray[np.float32], k: int) -> list[Hit]:
        """Unscored candidates for the best k passages, near-duplicates removed.

        `vector` is the query's embedding, float32 [dim].
        """
        wanted = max(CANDIDATES, 4 * k)
        near = [key for key, _ in self._index.search(vector, wanted)]
        candidates = fused(near, self._worded(query, wanted))[:wanted]
        vectors = self._index.vectors(candidates)
        places = ", ".join("?" * len(candidates))
        columns = ", ".join(_Row._fields)
        rows = f"SELECT {columns} FROM passages WHERE id IN ({places}) ORDER BY id"  # noqa: S608
        return distinct(
            Hit(
                *row[:4],
                score=0.0,
                relevance=0.0,
                context=row.context,
                vector=vectors[row.id],
            )
            for row in map(_Row._make, self._rows(rows, candidates))
        )

    def near(self, hit: Hit) -> list[Hit]:
        """The sentences of a passage's document around it, in order, itself among them."""
        columns = ", ".join(_Row._fields)
        within = (
            f"SELECT {columns} FROM passages "  # noqa: S608
            "WHERE document = ? AND id BETWEEN ? AND ? ORDER BY id"
        )
        rows = self._rows(within, [hit.document, hit.id - REACH, hit.id + REACH])
        return [
            Hit(*row[:4], score=0.0, relevance=0.0, context=row.context)
            for row in map(_Row._make, rows)
        ]

    def _worded(self, query: str, k: int) -> list[int]:
        """Ids of passages that share words with the query, by BM25, best first."""
        if not (expression := match_expression(query)):
            return []
        statement = (
            "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? ORDER BY rank LIMIT ?"
        )
        return [key for (key,) in self._rows(statement, [expression, k])]

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._lock:
            return self._passages.execute(statement, values).fetchall()
