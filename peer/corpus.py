"""The public corpus: a directory with vectors, passages and a note of what it was made with.

Its files are `vectors.faiss`, `passages.db` (SQLite; a passage's id is its vector's) and
`meta.json`. It is built in a temporary directory beside it and moved into place when whole.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from dragon.errors import ConfigurationError, DocumentError
from dragon.retrieval.chunking import Offsets, embedded_text, sentences
from dragon.retrieval.duplicates import distinct
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import IndexFileError, VectorIndex
from dragon.retrieval.lexical import TOKENIZER, coverage, fused, match_expression
from dragon.retrieval.relevance import MINIMUM_SCORE, Hit, relevance, score
from peer.records import MalformedLineError, Record, read_records

VERSION = 2
CHUNK_TOKENS = 96

_VECTORS, _PASSAGES, _META = "vectors.faiss", "passages.db", "meta.json"
_BATCH = 256
_SCHEMA = """
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL,
    part INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (document, part)
)
"""
_FULL_TEXT_SCHEMA = f"""
CREATE VIRTUAL TABLE passages_fts USING fts5(
    title, text, content='passages', content_rowid='id', tokenize='{TOKENIZER}'
)
"""
_FILL_FULL_TEXT = "INSERT INTO passages_fts(passages_fts) VALUES ('rebuild')"
_CANDIDATES = 32
"""Passages looked at, at least, in each of both rankings."""


@dataclass(frozen=True)
class CorpusInfo:
    """What a corpus holds and what it was made with."""

    version: int
    documents: int
    passages: int
    dimension: int
    embedder: str
    source: str
    built: str


@dataclass(frozen=True)
class _Passage:
    record: Record
    part: int
    text: str
    context: str


class _Row(NamedTuple):
    id: int
    document: str
    title: str
    text: str


def build(
    source: Path,
    out: Path,
    embedder: Embedder,
    tokenizer: Offsets,
    progress: Progress | None = None,
) -> CorpusInfo:
    """Make a corpus in directory `out` from a JSONL or TSV file (see peer.records).

    Every sentence of a text becomes a passage. A corpus already at `out` is replaced once the
    new one is whole; until then, and after any failure, `out` is as it was. Raises
    ConfigurationError if `source` is missing or `out` is something else than a corpus,
    DocumentError with a line number if the source is malformed.
    """
    if not source.is_file():
        raise ConfigurationError(f"There is no file {source}.")
    if out.exists() and not (out / _META).is_file():
        raise ConfigurationError(f"{out} exists and is not a corpus. Choose another place.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        info = _write(source, temporary, embedder, tokenizer, progress)
        _publish(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return info


def _write(
    source: Path,
    directory: Path,
    embedder: Embedder,
    tokenizer: Offsets,
    progress: Progress | None,
) -> CorpusInfo:
    index = VectorIndex(embedder.dim)
    connection = sqlite3.connect(directory / _PASSAGES)
    connection.execute("PRAGMA journal_mode = OFF")  # a build that fails is thrown away whole
    connection.execute(_SCHEMA)
    documents = 0
    with source.open("rb") as file:
        task = None
        if progress:
            task = progress.add_task(source.name, total=source.stat().st_size)
        for batch in _batches(_passages(read_records(file), tokenizer)):
            ids = range(len(index) + 1, len(index) + 1 + len(batch))
            _insert(connection, ids, batch)
            index.add(
                ids,
                embedder.embed([embedded_text(passage.text, passage.context) for passage in batch]),
            )
            documents += sum(passage.part == 0 for passage in batch)
            if progress and task is not None:
                progress.update(task, completed=file.tell())
    connection.execute(_FULL_TEXT_SCHEMA)
    connection.execute(_FILL_FULL_TEXT)
    connection.commit()
    connection.close()
    if not documents:
        raise DocumentError(f"{source} holds no passages.")
    index.save(directory / _VECTORS)
    info = CorpusInfo(
        version=VERSION,
        documents=documents,
        passages=len(index),
        dimension=embedder.dim,
        embedder=embedder.fingerprint,
        source=source.name,
        built=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    (directory / _META).write_text(json.dumps(asdict(info), indent=2) + "\n", encoding="utf-8")
    return info


def _passages(records: Iterator[Record], tokenizer: Offsets) -> Iterator[_Passage]:
    for record in records:
        for part, piece in enumerate(sentences([record.text], tokenizer, CHUNK_TOKENS)):
            yield _Passage(record, part, piece.text, piece.context or record.title)


def _batches(passages: Iterator[_Passage]) -> Iterator[list[_Passage]]:
    batch: list[_Passage] = []
    for passage in passages:
        batch.append(passage)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _insert(connection: sqlite3.Connection, ids: range, batch: list[_Passage]) -> None:
    for key, passage in zip(ids, batch, strict=True):
        record = passage.record
        row = (key, record.id, passage.part, record.title, passage.text)
        try:
            connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            reason = f"the id '{record.id}' occurred before"
            raise MalformedLineError(record.line, reason) from None


def _publish(temporary: Path, out: Path) -> None:
    """Move a whole corpus to `out`, in one step unless an old one has to make room."""
    for path in temporary.iterdir():
        path.chmod(0o644)
        _sync(path)
    temporary.chmod(0o755)
    _sync(temporary)
    if not out.exists():
        temporary.replace(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.replace(old)
    try:
        temporary.replace(out)
    except BaseException:
        old.replace(out)
        raise
    shutil.rmtree(old)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Corpus:
    """A corpus opened for searching. Safe to search from several threads."""

    def __init__(self, info: CorpusInfo, index: VectorIndex, passages: sqlite3.Connection) -> None:
        self._info = info
        self._index = index
        self._passages = passages
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, embedder: Embedder | None = None) -> Self:
        """Open what `build` made; with `embedder`, only if its vectors are that embedder's.

        Raises ConfigurationError with what to do if there is no corpus, or one that is damaged, of
        another version, or made with another embedder.
        """
        again = "Build it again with `dragon corpus build`."
        try:
            info = CorpusInfo(**json.loads((path / _META).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigurationError(f"There is no corpus at {path}. {again}") from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigurationError(f"{path / _META} cannot be read. {again}") from error
        if info.version != VERSION:
            message = f"The corpus at {path} has version {info.version}, not {VERSION}. {again}"
            raise ConfigurationError(message)
        if embedder is not None and embedder.fingerprint != info.embedder:
            raise ConfigurationError(
                f"The corpus at {path} has another embedder's vectors. {again}"
            )
        uri = (path / _PASSAGES).resolve().as_uri() + "?mode=ro&immutable=1"
        try:
            index = VectorIndex.load(path / _VECTORS, info.dimension)
            passages = sqlite3.connect(uri, uri=True, check_same_thread=False)
            (count,) = passages.execute("SELECT count(*) FROM passages").fetchone()
        except (IndexFileError, sqlite3.Error) as error:
            raise ConfigurationError(f"The corpus at {path} is damaged. {again}") from error
        if not len(index) == count == info.passages:
            raise ConfigurationError(f"The corpus at {path} is damaged. {again}")
        return cls(info, index, passages)

    def close(self) -> None:
        """Close the files; the corpus cannot be searched any more."""
        self._passages.close()

    def info(self) -> CorpusInfo:
        """What the corpus holds and what it was made with."""
        return self._info

    def search(self, query: str, vector: npt.NDArray[np.float32], k: int) -> list[Hit]:
        """The passages that fit a question best, best first: at most k, and only relevant ones.

        `vector` is the question's embedding [dim]. Of passages that say the same, one is returned.
        """
        wanted = max(_CANDIDATES, 4 * k)
        near = [key for key, _ in self._index.search(vector, wanted)]
        candidates = fused(near, self._worded(query, wanted))[:wanted]
        vectors = self._index.vectors(candidates)
        places = ", ".join("?" * len(candidates))
        rows = f"SELECT id, document, title, text FROM passages WHERE id IN ({places})"  # noqa: S608
        hits = [
            _hit(_Row(*row), query, float(vectors[row[0]] @ vector), vectors[row[0]])
            for row in self._rows(rows, candidates)
        ]
        best_first = sorted(hits, key=lambda hit: (-hit.score, hit.id))
        return distinct(hit for hit in best_first if hit.score >= MINIMUM_SCORE)[:k]

    def _worded(self, query: str, k: int) -> list[int]:
        """Passages with words of the query, by BM25, best first."""
        if not (expression := match_expression(query)):
            return []
        statement = (
            "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? ORDER BY rank LIMIT ?"
        )
        return [key for (key,) in self._rows(statement, [expression, k])]

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._lock:
            return self._passages.execute(statement, values).fetchall()


def _hit(passage: _Row, query: str, cosine: float, vector: npt.NDArray[np.float32]) -> Hit:
    shared = coverage(query, f"{passage.title} {passage.text}")
    value = score(cosine, shared)
    return Hit(*passage, value, relevance(value), coverage=shared, vector=vector)
