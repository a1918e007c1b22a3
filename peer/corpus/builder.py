"""Builds a version of the public corpus from a file of passages, perhaps on top of another.

The source is read twice: once to validate it, then a part at a time. An interrupted build leaves
its work in the directory of the next version, where the same build resumes.
"""

from __future__ import annotations

import datetime
import errno
import itertools
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import BaseModel
from rich.progress import Progress

from dragon.errors import ConfigurationError, DocumentError, StorageError
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.index import Vectors
from dragon.whole_file import write_whole
from peer.corpus.parts import PART, Part, parts, passages_of
from peer.corpus.passage_reader import read_records
from peer.corpus.prebuilt import prebuilt
from peer.corpus.shard import FILES, PASSAGES, VECTORS, ShardWriter
from peer.corpus.store import Corpus, shard_name, shard_of
from peer.corpus.versions import (
    FLAT_UP_TO,
    FORM,
    MANIFEST,
    FileDigest,
    Manifest,
    SourceFile,
    Versions,
    digest_of,
)

_STATE = "state.json"
Embed = Callable[[Iterable[Part]], Generator[tuple[Part, Vectors]]]
"""Gives parts their vectors, in order."""


class _Plan(BaseModel):
    """The inputs of a build; a build with the same plan resumes another's work."""

    form: int
    source: SourceFile
    embedder: str
    shards: int
    base: str


class _State(BaseModel):
    """Progress so far: `documents` of the source, and `passages` including the base's."""

    plan: _Plan
    parts: int
    documents: int
    passages: int

    def write(self, directory: Path) -> None:
        write_whole(directory / _STATE, self.model_dump_json())


@dataclass(frozen=True)
class Sharding:
    """How many shards; those of more than `flat_up_to` passages get an index of their vectors."""

    shards: int = 1
    flat_up_to: int = FLAT_UP_TO


def build(
    source: Path,
    out: Path,
    embedder: TextEmbedder,
    sharding: Sharding | None = Sharding(),
    *,
    embed: Embed | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build a version of the corpus at `out`, and make it the one served.

    `source` is a file (see peer.corpus.passage_reader); every sentence of a text becomes a passage.
    Without `sharding`, the new version also contains the one served, and is sharded like it.
    `embed` computes the vectors if given, else `embedder` in this process.

    After a failure the corpus is as it was, and the same build resumes where it stopped. Raises
    ConfigurationError if `source` is missing or `out` is not a corpus, DocumentError with a line
    number if the source is malformed, StorageError if the disk is full.
    """
    if not source.is_file():
        raise ConfigurationError(f"There is no file {source}.")
    progress = progress or Progress(disable=True)
    documents = _count(source, progress)
    versions = Versions(out)
    base: Corpus | None = None
    if sharding is None:
        base = Corpus.open(out, embedder)
        base.close()  # only its files are read from here on
        sharding = Sharding(base.manifest.shards, base.manifest.flat_up_to)
    before = base.manifest if base else None
    made_from = SourceFile(name=source.name, digest=digest_of(source), documents=documents)
    plan = _Plan(
        form=FORM,
        source=made_from,
        embedder=embedder.fingerprint,
        shards=sharding.shards,
        base=base.version if base else "",
    )
    with versions.building() as directory, _room(out):
        try:
            state = _begun(directory, plan, base, versions)
            with _writers(directory, plan, embedder.dim) as writers:
                embed = embed or _alone(source, embedder)
                state = _fill(source, directory, state, writers, embed, progress)
                passages, words = _finish(state, writers, sharding.flat_up_to, progress)
        except DocumentError:
            versions.discard()
            raise
        manifest = Manifest(
            form=FORM,
            documents=documents + (before.documents if before else 0),
            passages=passages,
            words=words,
            dimension=embedder.dim,
            embedder=embedder.fingerprint,
            shards=sharding.shards,
            flat_up_to=sharding.flat_up_to,
            sources=(*(before.sources if before else ()), made_from),
            built=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            files=_described(directory),
        )
        (directory / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        (versions.publish() / _STATE).unlink()
    return manifest


def embedded_texts(source: Path) -> list[str]:
    """The texts of a source's passages as they are embedded."""
    records = read_records(source)
    return [each.embedded for record in records for each in passages_of(record)]


def _count(source: Path, progress: Progress) -> int:
    """The number of documents in a source; raises if any is malformed."""
    task = progress.add_task("reading", total=None)
    documents = sum(1 for _ in read_records(source))
    progress.remove_task(task)
    if not documents:
        raise DocumentError(f"{source} holds no passages.")
    return documents


def _begun(directory: Path, plan: _Plan, base: Corpus | None, versions: Versions) -> _State:
    """The progress of a build with this plan; another plan's work is removed."""
    with suppress(OSError, ValueError):
        state = _State.model_validate_json((directory / _STATE).read_bytes())
        if state.plan == plan:
            return state
    shutil.rmtree(directory)
    directory.mkdir()
    if base is not None:
        for number in range(plan.shards):
            old = versions.path(base.version) / shard_name(number)
            new = directory / shard_name(number)
            new.mkdir()
            for name in (PASSAGES, VECTORS):
                shutil.copyfile(old / name, new / name)
        with _writers(directory, plan, base.manifest.dimension) as writers:
            for writer in writers:
                writer.begin()
    passages = base.manifest.passages if base else 0
    state = _State(plan=plan, parts=0, documents=0, passages=passages)
    state.write(directory)
    return state


@contextmanager
def _writers(directory: Path, plan: _Plan, dimension: int) -> Iterator[list[ShardWriter]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(ShardWriter(directory / shard_name(number), dimension)))
            for number in range(plan.shards)
        ]


def _alone(source: Path, embedder: TextEmbedder) -> Embed:
    embed = prebuilt(source, embedder)
    return lambda every: ((part, embed([each.embedded for each in part])) for part in every)


def _fill(
    source: Path,
    directory: Path,
    state: _State,
    writers: Sequence[ShardWriter],
    embed: Embed,
    progress: Progress,
) -> _State:
    total = state.plan.source.documents
    task = progress.add_task(source.name, total=total, completed=state.documents)
    records = itertools.islice(read_records(source), state.documents, None)
    with closing(embed(parts(records, PART))) as made:
        for passages, vectors in made:
            ids = np.arange(len(passages)) + state.passages + 1
            homes = np.array([shard_of(each.record.id, len(writers)) for each in passages])
            for number, writer in enumerate(writers):
                if writer.parts > state.parts:  # its commit came before a kill, others' did not
                    continue
                own = np.flatnonzero(homes == number)
                writer.add(ids[own].tolist(), [passages[place] for place in own], vectors[own])
            state = _State(
                plan=state.plan,
                parts=state.parts + 1,
                documents=state.documents + sum(each.part == 0 for each in passages),
                passages=state.passages + len(passages),
            )
            state.write(directory)
            progress.update(task, completed=state.documents)
    return state


def _finish(
    state: _State, writers: Sequence[ShardWriter], flat_up_to: int, progress: Progress
) -> tuple[int, int]:
    task = progress.add_task("index", total=state.passages)
    counts = [writer.finish(flat_up_to, partial(progress.advance, task)) for writer in writers]
    return sum(passages for passages, _ in counts), sum(words for _, words in counts)


def _described(directory: Path) -> dict[str, FileDigest]:
    found = sorted(path for path in directory.glob("*/*") if path.name in FILES)
    return {
        str(path.relative_to(directory)): FileDigest(
            bytes=path.stat().st_size, sha256=digest_of(path)
        )
        for path in found
    }


@contextmanager
def _room(out: Path) -> Iterator[None]:
    """Raises StorageError if the disk is full."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        of_sqlite = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
        if not of_sqlite and getattr(error, "errno", 0) not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"The disk of {out} is full. Make room and run the same command again: it resumes "
            "where it was."
        ) from error
