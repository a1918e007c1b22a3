"""Builds the public corpus from a file of passages.

It is built in a temporary directory next to its destination and moved there when complete.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import Progress

from dragon.errors import ConfigurationError, DocumentError
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import VectorIndex
from dragon.retrieval.lexical import TOKENIZER
from peer.corpus.meta import META, VERSION, CorpusInfo, digest_of
from peer.corpus.passage_reader import MalformedLineError, Record, read_records
from peer.corpus.prebuilt import Prebuilt
from peer.corpus.store import PASSAGES, VECTORS

_BATCH = 256
_SCHEMA = """
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    document TEXT NOT NULL,
    part INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    context TEXT NOT NULL,
    UNIQUE (document, part)
)
"""
_FULL_TEXT_SCHEMA = f"""
CREATE VIRTUAL TABLE passages_fts USING fts5(
    title, text, content='passages', content_rowid='id', tokenize='{TOKENIZER}'
)
"""
_FILL_FULL_TEXT = "INSERT INTO passages_fts(passages_fts) VALUES ('rebuild')"


@dataclass(frozen=True)
class _Passage:
    record: Record
    part: int
    text: str
    context: str

    @property
    def embedded(self) -> str:
        return embedded_text(self.text, self.context)


def build(
    source: Path,
    out: Path,
    embedder: Embedder,
    progress: Progress | None = None,
) -> CorpusInfo:
    """Build a corpus in directory `out` from a JSONL or TSV file (see peer.corpus.passage_reader).

    Every sentence of a text becomes a passage. A corpus already at `out` is replaced once the new
    one is complete, and stays unchanged after any failure. Raises ConfigurationError if `source` is
    missing or `out` is not a corpus, DocumentError with a line number if the source is malformed.
    """
    if not source.is_file():
        raise ConfigurationError(f"There is no file {source}.")
    if out.exists() and not (out / META).is_file():
        raise ConfigurationError(f"{out} exists and is not a corpus. Choose another place.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        info = _write(source, temporary, embedder, progress)
        _publish(temporary, out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return info


def embedded_texts(source: Path) -> list[str]:
    """The texts of a source's passages as they are embedded."""
    with source.open("rb") as file:
        return [passage.embedded for passage in _passages(read_records(file))]


def _write(
    source: Path,
    directory: Path,
    embedder: Embedder,
    progress: Progress | None,
) -> CorpusInfo:
    index, prebuilt = VectorIndex(embedder.dim), Prebuilt.of(source, embedder)
    connection = sqlite3.connect(directory / PASSAGES)
    connection.execute("PRAGMA journal_mode = OFF")  # a failed build is discarded
    connection.execute(_SCHEMA)
    documents = 0
    with source.open("rb") as file:
        task = None
        if progress:
            task = progress.add_task(source.name, total=source.stat().st_size)
        for batch in _batches(_passages(read_records(file))):
            ids = range(len(index) + 1, len(index) + 1 + len(batch))
            _insert(connection, ids, batch)
            index.add(ids, prebuilt.embed([passage.embedded for passage in batch]))
            documents += sum(passage.part == 0 for passage in batch)
            if progress and task is not None:
                progress.update(task, completed=file.tell())
    connection.execute(_FULL_TEXT_SCHEMA)
    connection.execute(_FILL_FULL_TEXT)
    connection.commit()
    connection.close()
    if not documents:
        raise DocumentError(f"{source} holds no passages.")
    index.save(directory / VECTORS)
    info = CorpusInfo(
        version=VERSION,
        documents=documents,
        passages=len(index),
        dimension=embedder.dim,
        embedder=embedder.fingerprint,
        source=source.name,
        digest=digest_of(source),
        built=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    (directory / META).write_text(json.dumps(asdict(info), indent=2) + "\n", encoding="utf-8")
    return info


def _passages(records: Iterator[Record]) -> Iterator[_Passage]:
    for record in records:
        for part, piece in enumerate(sentences([record.text])):
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
        row = (key, record.id, passage.part, record.title, passage.text, passage.context)
        try:
            connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            reason = f"the id '{record.id}' occurred before"
            raise MalformedLineError(record.line, reason) from None


def _publish(temporary: Path, out: Path) -> None:
    """Move a complete corpus to `out`, after moving an old one away."""
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
