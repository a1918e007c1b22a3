"""The corpus of the peer, built: from every kind of file, broken off, appended to.

Covers `peer.corpus.versions`, `peer.corpus.parts` and `peer.corpus.passage_reader`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from rich.progress import Progress

from dragon.errors import ConfigurationError, DocumentError, StorageError
from dragon.retrieval.chunking import sentences
from dragon.retrieval.index import Vectors
from harness import warm
from harness.faults.disk import small_disk
from peer.corpus import builder as module
from peer.corpus.builder import Sharding, build
from peer.corpus.parts import embedded
from peer.corpus.store import Corpus
from peer.corpus.versions import Manifest
from tests.peer.corpus.sources import (
    PASSAGES,
    StandIn,
    dpr,
    headless,
    jsonl,
    parquet,
    rows,
    tsv,
)
from tests.samples import embedder


def files(out: Path, version: str) -> dict[str, str]:
    """The checksums of a version's files, but for SQLite's, which depend on its transactions."""
    found = Manifest.read(out / version).files
    return {name: file.sha256 for name, file in found.items() if not name.endswith(".db")}


def held(out: Path, version: str) -> list[tuple[object, ...]]:
    """The rows and words of a version's databases."""
    found: list[tuple[object, ...]] = []
    for path in sorted((out / version).glob("*/passages.db")):
        database = sqlite3.connect(path)
        for table in ("passages", "documents", "frequencies"):
            found += database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        found += database.execute("SELECT rowid, rank FROM passages_fts('w1 OR w2')").fetchall()
        database.close()
    return found


def beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.glob("*"))


FORMATS = [tsv, jsonl, dpr, headless, parquet]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_gives_the_same_corpus(tmp_path: Path, write) -> None:
    source, out = write(tmp_path / "source"), tmp_path / "made" / "corpus"
    info = build(source, out, StandIn())
    build(tsv(tmp_path / "plain"), tmp_path / "other", StandIn())
    assert files(out, "v1") == files(tmp_path / "other", "v1")
    assert held(out, "v1") == held(tmp_path / "other", "v1")
    corpus = Corpus.open(out, StandIn())
    assert corpus.manifest == info
    corpus.close()
    count = sum(len(sentences([text])) for _, _, text in PASSAGES)
    assert (info.documents, info.passages, info.dimension) == (3, count, StandIn.dim)
    assert [(each.name, each.documents) for each in info.sources] == [("source", 3)]
    assert beside(out) == ["corpus"]
    assert sorted(path.name for path in out.iterdir()) == ["current", "v1"]


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = parquet(tmp_path / "source")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dragon-rag\[parquet\]'"):
        build(source, tmp_path / "corpus", StandIn())


def test_progress_counts_documents_and_passages(tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        info = build(
            rows(tmp_path / "source", range(50)), tmp_path / "c", StandIn(), progress=progress
        )
        assert [task.total for task in progress.tasks] == [50, info.passages]
        assert all(task.finished for task in progress.tasks)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\tTitle\tText\n2\tno text\n", "Line 2: it has 2 tab-separated fields"),
        (b"1\tTitle\tText\n\n\n2\ta\tb\tc\n", "Line 4: it has 4 tab-separated fields"),
        (b"1\tTitle\tText\n2\tTitle\t \n", "Line 2: 'text' is empty"),
        (b"\tTitle\tText\n", "Line 1: 'id' is empty"),
        (b"1\tA\tText\n2\tB\tText\n1\tC\tText\n", "Line 3: the id '1' occurred before"),
        (b"1\tTitle\tText\n2\tTitle\t\xff\xfe\n", "Line 2: it is not UTF-8"),
        (b'{"id": 1, "title": "A", "text": "B"}\n{"id": 2,\n', "Line 2: it is not valid JSON"),
        (b'{"id": 1, "title": "A", "text": "B"}\n[1]\n', "Line 2: it is not a JSON object"),
        (b'{"id": 1, "text": "B"}\n', "Line 1: 'title' is missing"),
        (b'{"id": 1, "title": "A", "text": null}\n', "Line 1: 'text' is not a string"),
        (b'{"id": true, "title": "A", "text": "B"}\n', "Line 1: 'id' is not a string"),
        (b"PAR1 and no more", "Line 1: it is not valid Parquet"),
        (b"", "holds no passages"),
        (b"id\ttitle\ttext\n", "holds no passages"),
        (b"x" * ((16 << 20) + 1), "Line 1: it is longer than 16 MB"),
    ],
    ids=range(15),
)
def test_malformed_sources_are_refused_and_leave_nothing(
    tmp_path: Path, content: bytes, message: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "made" / "corpus"
    source.write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        build(source, out, StandIn())
    assert beside(out) == []


def test_no_source_and_another_directory_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no file"):
        build(tmp_path / "nowhere", tmp_path / "corpus", StandIn())
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("precious")
    with pytest.raises(ConfigurationError, match="is not a corpus"):
        build(tsv(tmp_path / "source"), tmp_path / "thesis", StandIn())
    assert (tmp_path / "thesis" / "chapter").read_text() == "precious"


def test_an_older_version_stays_until_the_next_but_one(tmp_path: Path) -> None:
    source, out = tsv(tmp_path / "source"), tmp_path / "corpus"
    first = build(source, out, StandIn())
    source.write_text("1\tTitle\tText\nbroken\n")
    with pytest.raises(DocumentError):
        build(source, out, StandIn())
    assert Corpus.open(out).manifest == first
    for number in (2, 3):
        rows(source, range(number))
        build(source, out, StandIn())
        corpus = Corpus.open(out)
        assert (corpus.version, corpus.manifest.documents) == (f"v{number}", number)
        corpus.close()
    assert sorted(path.name for path in out.iterdir()) == ["current", "v2", "v3"]


def test_what_is_appended_is_as_if_built_at_once(tmp_path: Path) -> None:
    one, two = rows(tmp_path / "one", range(400)), rows(tmp_path / "two", range(400, 700))
    both = rows(tmp_path / "both", range(700))
    sharding = Sharding(shards=2, flat_up_to=500)
    build(both, tmp_path / "whole", StandIn(), sharding)
    build(one, tmp_path / "grown", StandIn(), sharding)
    info = build(two, tmp_path / "grown", StandIn(), None)
    assert (info.documents, info.shards, info.flat_up_to) == (700, 2, 500)
    assert [each.name for each in info.sources] == ["one", "two"]
    assert files(tmp_path / "grown", "v2") == files(tmp_path / "whole", "v1")
    assert held(tmp_path / "grown", "v2") == held(tmp_path / "whole", "v1")
    with pytest.raises(DocumentError, match=r"Line \d+: the id '4\d\d' occurred before"):
        build(two, tmp_path / "grown", StandIn(), None)
    assert not (tmp_path / "grown" / "building").exists()
    with pytest.raises(ConfigurationError, match="There is no corpus"):
        build(two, tmp_path / "nowhere", StandIn(), None)


@pytest.mark.parametrize(
    ("how", "where", "after", "blow"),
    [
        ("build", "add", 5, "SIGKILL"),  # between two shards of one part
        ("append", "add", 5, "SIGKILL"),
        ("build", "state", 4, "SIGKILL"),  # before it is noted that a part is there
        ("build", "state", 4, "SIGINT"),
        ("build", "index", 1, "SIGKILL"),
        ("build", "publish", 0, "SIGKILL"),
    ],
)
def test_a_build_that_is_ended_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, where: str, after: int, blow: str
) -> None:
    source, out, whole = rows(tmp_path / "source", range(500)), tmp_path / "out", tmp_path / "whole"
    make, version = partial(build, sharding=Sharding(2, 300)), "v1"
    if how == "append":
        first = rows(tmp_path / "first", range(500, 520))
        for place in (out, whole):
            make(first, place, StandIn())
        make, version = partial(build, sharding=None), "v2"
    monkeypatch.setattr(module, "PART", 100)
    make(source, whole, StandIn())
    arguments = [str(source), str(out), where, blow, str(after), how]
    log = tmp_path / "log"
    ended = warm.start("tests.peer.corpus.killed", arguments, os.environ, log)
    ended.join()
    assert ended.exitcode == -getattr(signal, blow), log.read_text()
    if how == "append":
        Corpus.open(out).close()
    else:
        with pytest.raises(ConfigurationError, match=r"not whole yet\. Run the same"):
            Corpus.open(out)
    again = Counting()
    make(source, out, again)
    assert again.texts <= 800, "it began anew"
    assert files(out, version) == files(whole, version)
    assert held(out, version) == held(whole, version)


class Counting(StandIn):
    """Counts what it embeds."""

    texts = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed(texts)


def test_a_build_of_something_else_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(StandIn):
        def embed(self, texts: Sequence[str]) -> Vectors:
            raise KeyboardInterrupt

    source, out = rows(tmp_path / "source", range(100)), tmp_path / "corpus"
    with pytest.raises(KeyboardInterrupt):
        build(source, out, Failing())
    rows(source, range(100, 150))
    assert build(source, out, StandIn()).documents == 50
    assert not (out / "building").exists()


def test_two_builds_at_once_are_one_too_many(tmp_path: Path) -> None:
    source, out = rows(tmp_path / "source", range(10)), tmp_path / "corpus"

    class Another(StandIn):
        def embed(self, texts: Sequence[str]) -> Vectors:
            with pytest.raises(ConfigurationError, match="Another process is building"):
                build(source, out, StandIn())
            return super().embed(texts)

    assert build(source, out, Another()).documents == 10


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_is_told_and_the_build_goes_on(tmp_path: Path) -> None:
    source, whole = rows(tmp_path / "source", range(3000)), tmp_path / "whole"
    build(source, whole, StandIn(), Sharding(flat_up_to=300))
    needed = sum(file.bytes for file in Manifest.read(whole / "v1").files.values())
    with small_disk(tmp_path / "disk", 4 * needed):
        out, ballast = tmp_path / "disk" / "corpus", tmp_path / "disk" / "ballast"
        refused: list[str] = []
        for share in (3.9, 3.6, 3.3, 3.1, 2.9):
            ballast.write_bytes(bytes(int(share * needed)))
            try:
                build(source, out, StandIn(), Sharding(flat_up_to=300))
            except StorageError as error:
                refused.append(error.message)
        ballast.unlink()
        assert len(refused) >= 2
        assert all("is full. Make room and run the same command" in each for each in refused)
        if not (out / "current").exists():
            build(source, out, StandIn(), Sharding(flat_up_to=300))
        Corpus.open(out).close()
        assert files(out, "v1") == files(whole, "v1")
        assert held(out, "v1") == held(whole, "v1")


def test_several_processes_make_what_one_makes(tmp_path: Path) -> None:
    source = rows(tmp_path / "source", range(60))
    build(source, tmp_path / "one", embedder())
    several = partial(embedded, count=2, embedder=None, source=source)
    build(source, tmp_path / "two", embedder(), embed=several)
    assert held(tmp_path / "one", "v1") == held(tmp_path / "two", "v1")
    one, two = (Corpus.open(tmp_path / each)._shards[0] for each in ("one", "two"))
    assert two.vectors(range(1, 121)) == pytest.approx(one.vectors(range(1, 121)), abs=2e-3)
