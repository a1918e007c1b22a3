"""Writes the files of a shard (see peer.corpus.shard), a part of the source at a time.

Each part is added all or nothing: its vectors are on disk before its rows are committed, together
with the number of parts, and vectors without rows are truncated.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import TOKENIZER
from peer.corpus import disk_index
from peer.corpus.disk_index import VectorFile
from peer.corpus.parts import Passage
from peer.corpus.passage_reader import MalformedLineError
from peer.corpus.shard import IDS, INDEX, LENGTHS, PASSAGES, VECTORS

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

    Raises OSError and sqlite3.Error.
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
        """Close the files."""
        self._passages.close()
        self._vectors.close()

    def begin(self) -> None:
        """Restart the count of parts, for another source."""
        self._passages.execute("PRAGMA user_version = 0")
        self.parts = 0

    def add(self, ids: Sequence[int], passages: Sequence[Passage], vectors: Vectors) -> None:
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
            disk_index.build(index, vectors, advance)
            vectors.close()
        return len(found), int(found["length"].sum())


def _numbers(packed: bytes) -> list[int]:
    """SQLite's varints: seven bits per byte, the last byte without the eighth bit."""
    numbers, value = [], 0
    for byte in packed:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    return numbers
