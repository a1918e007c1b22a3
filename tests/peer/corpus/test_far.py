"""A corpus whose shards are elsewhere: it finds what one at hand does, and goes on without one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragon.errors import ConfigurationError
from peer.corpus import store
from peer.corpus.builder import Sharding, build
from peer.corpus.shard import Shard
from peer.corpus.store import Corpus, FarCorpus, ShardError, shard_name, shard_of
from tests.peer.corpus.sources import StandIn

SHARDS = 3
COUNT = 60
EMBEDDER = StandIn()


class Elsewhere:
    """Shards as other processes serve them; those that are `down` fail."""

    def __init__(self, root: Path) -> None:
        self.down: set[int] = set()
        self.failed: list[str] = []
        self._shards = [
            Shard(root / "v1" / shard_name(number), EMBEDDER.dim) for number in range(SHARDS)
        ]

    def __call__(self, number: int, version: str, method: str, values: Sequence[Any]) -> Any:
        assert version == "v1"
        if number in self.down:
            self.failed.append(method)
            raise ShardError("it does not answer")
        return getattr(self._shards[number], method)(*values)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_AGAIN_S", 0.2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("far")
    source = folder / "source.tsv"
    texts = [f"{n}\tTitle {n}\tWord{n} is rare, and lake is not." for n in range(COUNT)]
    source.write_text("id\ttitle\ttext\n" + "\n".join(texts) + "\n")
    build(source, folder / "corpus", EMBEDDER, Sharding(SHARDS))
    return folder / "corpus"


@pytest.fixture
def elsewhere(root: Path) -> Elsewhere:
    return Elsewhere(root)


@pytest.fixture
def served(root: Path, elsewhere: Elsewhere) -> Iterator[FarCorpus]:
    corpus = FarCorpus.served(root, EMBEDDER, None, SHARDS, elsewhere)
    yield corpus
    corpus.close()


def without(corpus: Corpus) -> set[int]:
    """The shards that a search is without."""
    with corpus.counted() as numbers:
        found(corpus, "lake")
    return numbers


def found(corpus: Corpus, question: str) -> list[str]:
    (vector,) = EMBEDDER.embed([question])
    return [hit.document for hit in corpus.search(question, vector, COUNT)]


def test_it_finds_what_a_corpus_at_hand_finds(root: Path, served: FarCorpus) -> None:
    at_hand = Corpus.open(root, EMBEDDER)
    for question in ("Where is word7?", "lake", "word3 word55"):
        assert found(served, question) == found(at_hand, question) != []
    (hit,) = (
        hit for hit in served.search("word7", EMBEDDER.embed([""])[0], 1) if hit.document == "7"
    )
    assert served.near(hit) == at_hand.near(hit)
    assert served.spelled("Where is wrod7?") == at_hand.spelled("Where is wrod7?")
    assert without(served) == without(at_hand) == set()
    at_hand.close()


def test_a_shard_that_is_down_is_left_out_and_asked_again(
    served: FarCorpus, elsewhere: Elsewhere
) -> None:
    whole = found(served, "lake")
    before = set(threading.enumerate())
    down = shard_of("7", SHARDS)
    elsewhere.down = {down}
    left = [document for document in whole if shard_of(document, SHARDS) != down]
    assert set(found(served, "lake")) == set(left) < set(whole)
    # A process that ends does not wait for it.
    asking = [
        thread
        for thread in threading.enumerate()
        if "_until_back" in thread.name and thread not in before
    ]
    assert [thread.daemon for thread in asking] == [True]
    # No search asks it: one that is late would hold up all of them.
    elsewhere.failed.clear()
    assert without(served) == {down}
    assert not elsewhere.failed
    elsewhere.down = set()
    while without(served):
        time.sleep(0.01)
    assert found(served, "lake") == whole


def test_with_none_left_nothing_is_found(served: FarCorpus, elsewhere: Elsewhere) -> None:
    elsewhere.down = set(range(SHARDS))
    assert without(served) == elsewhere.down
    assert found(served, "lake") == []


def test_what_does_not_fit_is_refused(root: Path, elsewhere: Elsewhere) -> None:
    with pytest.raises(ConfigurationError, match="3 shards, and 2 are served: deploy"):
        FarCorpus.served(root, EMBEDDER, None, 2, elsewhere)
    other = StandIn()
    other.fingerprint = "another"
    with pytest.raises(ConfigurationError, match="another embedder"):
        FarCorpus.served(root, other, None, SHARDS, elsewhere)
