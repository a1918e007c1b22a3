"""The corpus of the peer: built, read and searched.

Covers `peer.corpus.builder`, `peer.corpus.meta` and `peer.corpus.passage_reader`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.progress import Progress

from dragon.errors import ConfigurationError, DocumentError
from dragon.retrieval.chunking import MOST_BYTES, embedded_text, sentences
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import coverage
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.ranking import ranked
from dragon.retrieval.relevance import MINIMUM_SCORE, relevance, score
from peer.corpus import builder as module
from peer.corpus.builder import build
from peer.corpus.meta import VERSION, outdated
from peer.corpus.store import Corpus
from tests.samples import embedder, prose

PASSAGES = [
    ("1", "Lake Baikal", "Lake Baikal in Siberia is the deepest lake on Earth: 1,642 metres."),
    ("2", "Bhutan", 'Its people call Bhutan "Druk Yul". Its capital is Thimphu.'),
    ("3", "Velcro", "George de Mestral, a Swiss engineer, invented Velcro in 1941."),
]


def tsv(path: Path) -> Path:
    lines = ["\t".join(passage) for passage in PASSAGES]
    path.write_text("id\ttitle\ttext\n" + "\n".join(lines) + "\n")
    return path


def jsonl(path: Path) -> Path:
    lines = [json.dumps({"id": i, "title": t, "text": x, "more": 1}) for i, t, x in PASSAGES]
    path.write_text("\n".join(lines))
    return path


def dpr(path: Path) -> Path:
    rows = []
    for identity, title, text in PASSAGES:
        doubled = text.replace('"', '""')
        rows.append(f'{identity}\t"{doubled}"\t{title}')
    path.write_text("id\ttext\ttitle\r\n" + "\r\n".join(rows) + "\r\n", newline="")
    return path


def headless(path: Path) -> Path:
    lines = ["\t".join(passage) for passage in PASSAGES]
    path.write_bytes(b"\xef\xbb\xbf" + "\n\n".join(lines).encode())
    return path


def searched(corpus: Corpus, question: str, k: int = 3) -> list[tuple[str, str, str]]:
    query = Query.of(question, embedder())
    best = ranked(query, corpus.search(query.text, query.vector, k))
    hits = [hit for hit in best if hit.score >= MINIMUM_SCORE][:k]
    return [(hit.document, hit.title, hit.text) for hit in hits]


def nearest(corpus: Corpus, vector: Vectors) -> str:
    query = Query(("",), vector[None])
    return ranked(query, corpus.search("", vector, 1))[0].document


def beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


@pytest.mark.parametrize("write", [tsv, jsonl, dpr, headless])
def test_every_format_gives_the_same_corpus(tmp_path: Path, write) -> None:
    out = tmp_path / "made" / "corpus"
    info = build(write(tmp_path / "source"), out, embedder())
    corpus = Corpus.open(out, embedder())
    assert corpus.info() == info
    count = sum(len(sentences([text])) for _, _, text in PASSAGES)
    assert (info.documents, info.passages, info.dimension) == (3, count, 384)
    assert (info.embedder, info.source) == (embedder().fingerprint, "source")
    questions = (
        "How deep does Lake Baikal go?",
        "What's the capital city of Bhutan?",
        "Who came up with Velcro?",
    )
    for question, (identity, title, text) in zip(questions, PASSAGES, strict=True):
        ((found_id, found_title, sentence),) = searched(corpus, question, 1)
        assert (found_id, found_title) == (identity, title)
        assert sentence in text
    assert beside(out) == ["corpus"]
    corpus.close()


def test_hits_carry_score_and_relevance_and_leave_out_the_irrelevant(tmp_path: Path) -> None:
    build(tsv(tmp_path / "source"), tmp_path / "corpus", embedder())
    corpus = Corpus.open(tmp_path / "corpus")
    asked = "Who came up with Velcro?"
    query = Query.of(asked, embedder())
    hit = ranked(query, corpus.search(asked, query.vector, 3))[0]
    found = sentences([PASSAGES[2][2]])
    (context,) = [each.context or PASSAGES[2][1] for each in found if each.text == hit.text]
    (passage,) = embedder().embed([embedded_text(hit.text, context)])
    assert hit.context == context
    shared = coverage(asked, embedded_text(hit.text, context))
    assert shared == hit.coverage > 0
    assert hit.score == pytest.approx(score(float(query.vector @ passage), shared), abs=1e-5)
    assert hit.score > MINIMUM_SCORE
    assert hit.relevance == relevance(hit.score)
    assert searched(corpus, "When is my dentist's appointment?") == []
    corpus.close()


def test_long_texts_become_several_passages(tmp_path: Path) -> None:
    text = " ".join(prose(30).split())
    source = tmp_path / "source"
    source.write_text(f"7\tLedger\t{text}\n8\t\tA text without a title.\n")
    info = build(source, tmp_path / "corpus", embedder())
    assert info.documents == 2
    assert info.passages > 5
    corpus = Corpus.open(tmp_path / "corpus")
    asked = "the stone keeper's blue ledger"
    hits = corpus.search(asked, embedder().embed([asked])[0], 100)
    parts = [hit.text for hit in sorted(hits, key=lambda hit: hit.id) if hit.document == "7"]
    assert " ".join(parts) == text
    assert all(len(part) <= MOST_BYTES for part in parts)
    assert all(hit.title == "Ledger" for hit in hits if hit.document == "7")
    corpus.close()


def test_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tsv(tmp_path / "source"), tmp_path / "whole", embedder())
    monkeypatch.setattr(module, "_BATCH", 2)
    with Progress(disable=True) as progress:
        build(tsv(tmp_path / "source"), tmp_path / "batched", embedder(), progress)
        (task,) = progress.tasks
        assert task.finished
        assert task.completed == (tmp_path / "source").stat().st_size
    whole, batched = Corpus.open(tmp_path / "whole"), Corpus.open(tmp_path / "batched")
    question = "Which is the deepest lake?"
    assert searched(whole, question) == searched(batched, question)


def test_threads_may_search_at_once(tmp_path: Path) -> None:
    build(tsv(tmp_path / "source"), tmp_path / "corpus", embedder())
    corpus = Corpus.open(tmp_path / "corpus")
    questions = ["How deep is Lake Baikal?", "What is Bhutan's capital?", "Who invented Velcro?"]
    vectors = embedder().embed(questions * 20)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda vector: nearest(corpus, vector), vectors))
    assert found == ["1", "2", "3"] * 20


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
        (b"", "holds no passages"),
        (b"id\ttitle\ttext\n", "holds no passages"),
        (b"x" * ((16 << 20) + 1), "Line 1: it is longer than 16 MB"),
    ],
    ids=range(14),
)
def test_malformed_sources_are_refused_and_leave_nothing(
    tmp_path: Path, content: bytes, message: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "made" / "corpus"
    source.write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        build(source, out, embedder())
    assert beside(out) == []


def test_no_source_and_another_directory_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no file"):
        build(tmp_path / "nowhere", tmp_path / "corpus", embedder())
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("precious")
    with pytest.raises(ConfigurationError, match="is not a corpus"):
        build(tsv(tmp_path / "source"), tmp_path / "thesis", embedder())
    assert (tmp_path / "thesis" / "chapter").read_text() == "precious"


def test_a_corpus_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "made" / "corpus"
    first = build(tsv(source), out, embedder())
    source.write_text("1\tTitle\tText\nbroken\n")
    with pytest.raises(DocumentError):
        build(source, out, embedder())
    assert Corpus.open(out).info() == first
    source.write_text("9\tVelcro\tVelcro has hooks and loops.\n")
    build(source, out, embedder())
    corpus = Corpus.open(out)
    assert searched(corpus, "What has Velcro?") == [("9", "Velcro", "Velcro has hooks and loops.")]
    assert beside(out) == ["corpus"]


INTERRUPTED = """
import signal, sys
from pathlib import Path
from peer.corpus import builder as building
from tests.samples import embedder

# A background job of a shell without job control inherits that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Index(building.VectorIndex):
    def add(self, ids, vectors):
        super().add(ids, vectors)
        print("added", flush=True)

building.VectorIndex, building._BATCH = Index, 1
building.build(Path(sys.argv[1]), Path(sys.argv[2]), embedder())
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing_at_its_place(tmp_path: Path, blow: int) -> None:
    source, out = tmp_path / "source", tmp_path / "corpus"
    source.write_text("".join(f"{number}\tTitle\tText {number}.\n" for number in range(20_000)))
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(source), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"added\n"
    process.send_signal(blow)
    process.communicate()
    assert process.returncode != 0
    assert not out.exists()
    if blow == signal.SIGINT:
        assert beside(out) == ["source"]


def test_what_is_no_whole_corpus_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    with pytest.raises(ConfigurationError, match=r"There is no corpus .* `dragon corpus build`"):
        Corpus.open(out)
    info = build(tsv(tmp_path / "source"), out, embedder())
    with pytest.raises(ConfigurationError, match="another embedder's vectors"):
        Corpus.open(out, Embedder(embedder()._model, "another"))
    for name, damage in (
        ("meta.json", b"{"),
        (
            "meta.json",
            (out / "meta.json").read_bytes().replace(b'"version": %d' % VERSION, b'"version": 1'),
        ),
        (
            "meta.json",
            (out / "meta.json")
            .read_bytes()
            .replace(b'"passages": %d' % info.passages, b'"passages": 9'),
        ),
        ("vectors.faiss", (out / "vectors.faiss").read_bytes()[:-100]),
        ("passages.db", b"not a database" * 300),
        ("passages.db", b""),
    ):
        whole = (out / name).read_bytes()
        (out / name).write_bytes(damage)
        with pytest.raises(ConfigurationError, match="Build it again"):
            Corpus.open(out)
        (out / name).write_bytes(whole)
    Corpus.open(out, embedder()).close()


def test_the_demo_corpus_is_well_formed() -> None:
    from peer.corpus.passage_reader import read_records

    with (Path(module.__file__).parent / "demo_corpus.tsv").open("rb") as file:
        records = list(read_records(file))
    assert len(records) >= 300
    assert len({record.id for record in records}) == len(records)


def test_a_corpus_of_an_older_version_or_text_is_told(tmp_path: Path) -> None:
    out, source = tmp_path / "corpus", tsv(tmp_path / "source")
    assert not outdated(out, source)
    build(source, out, embedder())
    assert not outdated(out, source)
    text = source.read_bytes()
    source.write_bytes(text + b"4\tTea\tTea is served at four.\n")
    assert outdated(out, source)
    source.write_bytes(text)
    meta = out / "meta.json"
    meta.write_bytes(meta.read_bytes().replace(b'"version": %d' % VERSION, b'"version": 1'))
    assert outdated(out, source)
    mine = source.rename(tmp_path / "passages of mine.tsv")
    assert not outdated(out, mine)


def test_a_code_finds_its_passage(tmp_path: Path) -> None:
    source = tmp_path / "source"
    numbers = (f"{n}\tPart {n}\tThe seal of this part is QX-{n}-B.\n" for n in range(7700, 7760))
    source.write_text("".join(numbers))
    build(source, tmp_path / "corpus", embedder())
    corpus = Corpus.open(tmp_path / "corpus")
    assert searched(corpus, "What takes the seal QX-7741-B?", 1)[0][0] == "7741"
    corpus.close()
