from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dragon.errors import ConfigurationError
from peer.corpus.builder import build
from peer.corpus.store import Corpus
from peer.corpus.versions import Versions, outdated
from tests.peer.corpus.sources import StandIn, rows, tsv


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    """Two versions of one and of two documents, the second served."""
    source = tmp_path / "source"
    for count in (1, 2):
        build(rows(source, range(count)), tmp_path / "corpus", StandIn())
    return Versions(tmp_path / "corpus")


def documents(versions: Versions) -> int:
    corpus = Corpus.open(versions.root)
    corpus.close()
    return corpus.manifest.documents


def test_a_version_is_served_once_it_is_named(versions: Versions) -> None:
    assert (versions.names, versions.current, documents(versions)) == (["v1", "v2"], "v2", 2)
    mark = versions.mark
    assert versions.mark == mark
    versions.serve("v1")
    assert versions.mark != mark
    assert (versions.current, documents(versions)) == ("v1", 1)


def test_what_was_served_before_a_build_stays(versions: Versions, tmp_path: Path) -> None:
    versions.serve("v1")
    (versions.root / "v1-of-mine").mkdir()
    build(rows(tmp_path / "source", range(3)), versions.root, StandIn())
    assert (versions.names, versions.current) == (["v1", "v3"], "v3")


def test_a_name_that_cannot_be_read_or_is_of_no_version(versions: Versions) -> None:
    (versions.root / "current").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="`dragon corpus switch`"):
        documents(versions)
    versions.serve("v9")
    with pytest.raises(ConfigurationError, match=r"no version v9 .* v1, v2.* `dragon corpus sw"):
        documents(versions)


def test_a_corpus_of_older_text_is_told(tmp_path: Path) -> None:
    out, source = tmp_path / "corpus", tsv(tmp_path / "source")
    assert not outdated(out, source)
    build(source, out, StandIn())
    assert not outdated(out, source)
    text = source.read_bytes()
    source.write_bytes(text + b"4\tTea\tTea is served at four.\n")
    assert outdated(out, source)
    build(rows(tmp_path / "more", range(7, 9)), out, StandIn(), None)
    assert not outdated(out, source), "a person has added to it"
    shutil.rmtree(out)
    (out / "building").mkdir(parents=True)
    assert outdated(out, source), "it was begun only"
