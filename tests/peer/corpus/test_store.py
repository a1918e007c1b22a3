"""The corpus of the peer, opened and searched."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragon.errors import ConfigurationError
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.find import ranked
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import coverage, match_expression
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.relevance import WORDS
from peer.corpus import store as module
from peer.corpus.builder import Sharding, build
from peer.corpus.shard import PASSAGES as DATABASE
from peer.corpus.store import Corpus
from tests.peer.corpus.sources import PASSAGES, StandIn, rows, tsv
from tests.samples import embedder


def searched(corpus: Corpus, question: str, k: int = 3) -> list[tuple[str, str, str]]:
    query = Query.of(question, embedder())
    hits = ranked(query.questions, query.vectors, corpus.search(query.text, query.vector, k))[:k]
    return [(hit.document, hit.title, hit.text) for hit in hits]


def nearest(corpus: Corpus, vector: Vectors) -> str:
    return ranked([""], vector[None], corpus.search("", vector, 1))[0].document


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    build(tsv(folder / "source"), folder / "corpus", embedder())
    return folder / "corpus"


def test_hits_carry_their_score(small: Path) -> None:
    corpus = Corpus.open(small)
    asked = "Who came up with Velcro?"
    query = Query.of(asked, embedder())
    hit = ranked(query.questions, query.vectors, corpus.search(asked, query.vector, 3))[0]
    found = sentences([PASSAGES[2][2]])
    (context,) = [each.context or PASSAGES[2][1] for each in found if each.text == hit.text]
    (passage,) = embedder().embed([embedded_text(hit.text, context)])
    assert hit.context == context
    shared = coverage(asked, embedded_text(hit.text, context))
    assert shared > 0
    assert hit.score == pytest.approx(float(query.vector @ passage) + WORDS * shared, abs=1e-5)
    corpus.close()


def test_threads_may_search_at_once(small: Path) -> None:
    corpus = Corpus.open(small)
    questions = ["How deep is Lake Baikal?", "What is Bhutan's capital?", "Who invented Velcro?"]
    vectors = embedder().embed(questions * 20)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda vector: nearest(corpus, vector), vectors))
    assert found == ["1", "2", "3"] * 20
    corpus.close()


def test_a_code_finds_its_passage(tmp_path: Path) -> None:
    source = tmp_path / "source"
    numbers = (f"{n}\tPart {n}\tThe seal of this part is QX-{n}-B.\n" for n in range(7700, 7760))
    source.write_text("".join(numbers))
    build(source, tmp_path / "corpus", embedder())
    corpus = Corpus.open(tmp_path / "corpus")
    assert searched(corpus, "What takes the seal QX-7741-B?", 1)[0][0] == "7741"
    corpus.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same documents as one, in shards, and with an index of what is in each shard."""
    folder = tmp_path_factory.mktemp("made")
    source = rows(folder / "source", range(1200))
    for name, sharding in {
        "one": Sharding(),
        "shards": Sharding(3),
        "indexed": Sharding(3, flat_up_to=300),
    }.items():
        build(source, folder / name, StandIn(), sharding)
    return {name: folder / name for name in ("one", "shards", "indexed")}


@pytest.fixture
def one(made: dict[str, Path]) -> Iterator[Corpus]:
    corpus = Corpus.open(made["one"])
    yield corpus
    corpus.close()


QUESTIONS = [
    "What has w17?",
    "The w1 of w21, w9 and w333",
    "How far off is w5 of Line 3?",
    "Is it?",
]


def test_shards_answer_as_one_corpus(one: Corpus, made: dict[str, Path]) -> None:
    shards = Corpus.open(made["shards"])
    for question in QUESTIONS:
        vector = StandIn().embed([question])[0]
        assert shards.nearest(vector, 40) == one.nearest(vector, 40)
        assert shards.worded(question, 40) == one.worded(question, 40)
        found, same = one.search(question, vector, 5), shards.search(question, vector, 5)
        assert found == same
        assert [hit.vector.tolist() for hit in found] == [hit.vector.tolist() for hit in same]
        assert [shards.near(hit) for hit in found] == [one.near(hit) for hit in found]
    assert shards.spelled("how faar is the ilne") == one.spelled("how faar is the ilne")
    assert one.spelled("how faar is the ilne") == {"faar": "far", "ilne": "line"}
    shards.close()


def test_words_are_ranked_as_by_sqlite(one: Corpus, made: dict[str, Path]) -> None:
    database = sqlite3.connect(made["one"] / "v1" / "shard-0" / DATABASE)
    for question in QUESTIONS:
        reference = database.execute(
            "SELECT rowid, -rank FROM passages_fts WHERE passages_fts MATCH ? ORDER BY rank, rowid",
            [match_expression(question) or '"nothing such"'],
        ).fetchall()
        found = one.worded(question, len(reference))
        assert dict(found) == pytest.approx(dict(reference))
        assert [value for _, value in found] == sorted(dict(found).values(), reverse=True)
    database.close()


def test_the_rarest_words_are_looked_up_first(one: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    question = "w333 w1 it"
    rarest = {key for key, _ in one.worded("w333", 99)}
    monkeypatch.setattr(module, "_PLACES", 30)
    assert {key for key, _ in one.worded(question, 99)} == rarest
    monkeypatch.setattr(module, "_PLACES", 0)
    assert one.worded(question, 99) == []


def test_what_is_no_whole_corpus_is_refused(tmp_path: Path, small: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no corpus .* `dragon corpus build`"):
        Corpus.open(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="another embedder's vectors"):
        Corpus.open(small, Embedder(embedder()._model, "another"))
    with pytest.raises(ConfigurationError, match=r"no version v7 .* there are: v1"):
        Corpus.open(small, version="v7")


@pytest.mark.parametrize("damage", ["truncated", "altered", "removed"])
def test_a_damaged_file_is_refused_with_what_to_do(
    tmp_path: Path, made: dict[str, Path], damage: str
) -> None:
    out = tmp_path / "corpus"
    shutil.copytree(made["indexed"], out)
    files = [path for path in (out / "v1").rglob("*") if path.is_file()]
    assert len(files) == 1 + 3 * 5
    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        match damage:
            case "truncated":
                path.write_bytes(whole[:-9])
            case "altered":
                path.write_bytes(whole[:middle] + b"\0\1\2\3" + whole[middle + 4 :])
            case "removed" if path.name != "manifest.json":
                path.unlink()
        if path.exists() and path.read_bytes() == whole:
            continue
        with pytest.raises(ConfigurationError, match=f"{path.name}.*Build it again with `dragon"):
            Corpus.open(out)
        path.write_bytes(whole)
    Corpus.open(out).close()


def test_a_damaged_version_names_another(tmp_path: Path) -> None:
    out, source = tmp_path / "corpus", tsv(tmp_path / "source")
    for _ in range(2):
        build(source, out, StandIn())
    (out / "v2" / "manifest.json").write_bytes(b"{")
    with pytest.raises(ConfigurationError, match=r"or serve another .* `dragon corpus switch v1`"):
        Corpus.open(out)
    Corpus.open(out, version="v1").close()
