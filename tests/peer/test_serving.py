"""Rows of the cloud: a passage each, or all of them numbered for a model that writes.

And document KV, which waits for a slot. Covers `peer.context`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.backends.torch.cache import TensorKV
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.decoder import Decoder
from dragon.inference.engine import Engine
from dragon.inference.rows import Row, room_for_document
from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.link.bodies import Bulk
from dragon.retrieval.prompt_rows import NOTHING_FOUND, Answers
from dragon.retrieval.relevance import BARE_RELEVANCE, Hit
from harness.models import SMALL_MODEL
from peer.context import PeerMetrics, ReturnTimes, Shared
from peer.corpus.builder import Sharding, build
from peer.corpus.shard import Shard
from peer.corpus.store import Corpus, FarCorpus, ShardError, shard_name
from peer.corpus.versions import Versions
from peer.serving import CloudFetch, Retriever
from tests import tiny
from tests.samples import embedder, judge

TEXTS = [
    ("Lake Baikal", "Lake Baikal lies in Siberia. It is 1,642 metres deep. It freezes in January."),
    ("Lake Titicaca", "Lake Titicaca lies in the Andes at 3,812 metres. Reeds grow in it."),
    ("Velcro", "George de Mestral invented Velcro in 1941."),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts as a source, and the corpus of them."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{n}\t{title}\t{text}" for n, (title, text) in enumerate(TEXTS)]
    (folder / "source.tsv").write_text("id\ttitle\ttext\n" + "\n".join(lines) + "\n")
    build(folder / "source.tsv", folder / "corpus", embedder())
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with tiny.engine(tmp_path_factory.mktemp("model")) as running:
        yield running


@pytest.fixture
def retriever(folder: Path, engine: Engine, tokenizer: Tokenizer) -> Iterator[Retriever]:
    corpus = Corpus.open(folder / "corpus", embedder())
    yield Retriever(engine, embedder(), judge(), corpus, tokenizer, Answers.WORDS)
    corpus.close()


def asking(query: str, top_k: int = 5, **more: Any) -> control.Asking:
    return control.Asking(conversation=(20,), raw=False, query=query, top_k=top_k, **more)


async def test_passages_that_answer_are_in_one_row_with_numbers_after_the_devices(
    retriever: Retriever, tokenizer: Tokenizer
) -> None:
    found = await retriever.find(asking("How deep is Lake Baikal?"), 20, 40)
    (row,) = found.rows
    told = tokenizer.decode(row.tokens)
    assert f"[6] Lake Baikal: {TEXTS[0][1]}" in told
    assert "[1] Lake" not in told
    assert "Velcro" not in told
    assert row.relevance == found.hits[0].relevance
    documents = found.documents([1.0])
    assert [each.text for each in documents] == [TEXTS[0][1]]
    assert [each.weight for each in documents] == [1.0]


async def test_passages_that_have_no_room_are_left_out(retriever: Retriever) -> None:
    asked = asking("How deep is Lake Baikal?")
    whole = await retriever.find(asked, 20, 40)
    prompt = retriever.engine.model.context - len(whole.rows[0].tokens) - 2
    short = await retriever.find(asked, prompt, 40)
    assert len(short.hits) == len(whole.hits) - 1
    assert len(short.rows[0].tokens) <= room_for_document(tiny.CONTEXT, prompt, 40)


async def test_without_a_passage_the_model_is_told_so(
    retriever: Retriever, tokenizer: Tokenizer
) -> None:
    for query in ("Who composed the opera Fidelio?", ""):
        found = await retriever.find(asking(query), 20, 40)
        (row,) = found.rows
        assert NOTHING_FOUND in tokenizer.decode(row.tokens)
        assert (row.relevance, found.hits) == (BARE_RELEVANCE, [])


async def test_a_text_is_continued_from_sentences_with_the_devices_weights(
    retriever: Retriever,
) -> None:
    text = "How deep is Lake Baikal?"
    (asked,) = embedder().embed([text])
    raw = asking(text).model_copy(update={"raw": True})
    for slope, judged in ((0.0, True), (20.0, True), (20.0, False)):
        update = {"slope": slope, "judged": judged}
        found = await retriever.find(raw.model_copy(update=update), 20, 40)
        assert any(hit.text in TEXTS[0][1] and hit.text != TEXTS[0][1] for hit in found.hits)
        assert not any(row.quotes for row in found.rows)
        cosines = [float(hit.vector @ asked) for hit in found.hits if hit.vector is not None]
        assert len(cosines) == len(found.rows) > 0
        assert [row.relevance for row in found.rows] == pytest.approx(
            [slope * cosine for cosine in cosines], abs=1e-4
        )


async def test_where_no_passages_are_wanted_the_row_is_bare(
    retriever: Retriever, tokenizer: Tokenizer
) -> None:
    found = await retriever.find(asking("How deep is Lake Baikal?", top_k=0), 20, 40)
    assert [list(row.tokens) for row in found.rows] == [tokenizer.bare_row()]


async def test_misspelt_words_are_read_as_the_corpus_spells_them(retriever: Retriever) -> None:
    retriever.answers = Answers.QUOTES
    stated = await retriever.find(asking("who was it invented velcro by"), 20, 40)
    misspelt = await retriever.find(asking("who was it invnted vlecro by"), 20, 40)
    assert misspelt.hits == stated.hits != []  # with their scores, which words have a say in
    assert len(stated.rows) == len(stated.hits)
    assert all(row.quotes for row in stated.rows)


async def test_what_shares_but_a_word_with_a_question_does_not_answer_it(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "Who invented our raffle in 1941?"
    assert await retriever.search(question, 5) == []
    monkeypatch.setattr("peer.serving.ABOUT", -1.0)
    assert [hit.title for hit in await retriever.search(question, 5)] == ["Velcro"]


def elsewhere(root: Path, own: int, before: Callable[[int, str], object]) -> FarCorpus:
    """A corpus whose shard `own` is asked from afar: `before` a call it may wait or fail."""
    shard = Shard(root / "v1" / shard_name(own), embedder().dim)

    def ask(number: int, version: str, method: str, values: Sequence[Any]) -> Any:
        before(number, method)
        return getattr(shard, method)(*values)

    return FarCorpus("v1", Versions(root).manifest("v1"), ask)


@pytest.mark.parametrize("answers", [Answers.WORDS, Answers.QUOTES])
async def test_a_corpus_elsewhere_is_waited_for_beside_the_engine(
    retriever: Retriever, folder: Path, tmp_path: Path, answers: Answers
) -> None:
    retriever.answers = answers
    asked = asking("Who invented Velcro?")
    at_hand = await retriever.find(asked, 20, 40)
    build(folder / "source.tsv", tmp_path / "far", embedder(), Sharding(2))

    def slow(number: int, _: str) -> None:
        """One shard is down; the other answers once the engine has done something else."""
        if number == 0:
            raise ShardError("it is down")
        assert retriever.engine.submit_urgent(lambda: "done").result(timeout=60) == "done"

    retriever.corpus = elsewhere(tmp_path / "far", 1, slow)
    found = await retriever.find(asked, 20, 40)
    assert found.rows == at_hand.rows
    assert [hit.text for hit in found.hits] == [hit.text for hit in at_hand.hits] != []
    assert (at_hand.unsearched, found.unsearched) == (0, 1)


class Gate:
    """Lets a search for passages through once it is told to go on."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __call__(self, _: int, method: str) -> None:
        if method == "nearest":
            self.asked.set()
            assert self.go_on.wait(60)


@pytest.mark.parametrize("answers", [Answers.WORDS, Answers.QUOTES])
async def test_a_search_that_a_new_version_overtakes_ends_in_its_own(
    retriever: Retriever, folder: Path, tmp_path: Path, answers: Answers
) -> None:
    retriever.answers = answers
    asked = asking("Who invented Velcro?")
    at_hand = await retriever.find(asked, 20, 40)
    (tmp_path / "other.tsv").write_text("id\ttitle\ttext\n0\tMount Kenya\tIt is 5,199 m high.\n")
    build(tmp_path / "other.tsv", tmp_path / "other", embedder())
    before, other = Gate(), Gate()
    retriever.corpus = elsewhere(folder / "corpus", 0, before)
    other.go_on.set()
    search = asyncio.create_task(retriever.find(asked, 20, 40))
    await asyncio.to_thread(before.asked.wait, 60)
    await retriever.switch(elsewhere(tmp_path / "other", 0, other))
    before.go_on.set()
    assert (await search).hits == at_hand.hits != []
    assert not other.asked.is_set()
    assert (await retriever.find(asked, 20, 40)).hits == []
    assert other.asked.is_set()


# Documents for a device.

HIT = Hit(1, "a", "A", "Nairobi lies in Kenya.", 0.9, 3.0)


class OneDocument:
    """A retriever that knows one."""

    async def search(self, query: str, top_k: int) -> list[Hit]:
        return [HIT]


@pytest.mark.timeout(120)
async def test_a_fetch_waits_for_a_slot(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = LanguageModel.load(tiny.save(tmp_path), tiny.VOCABULARY)
    engine = Engine(model)
    answers: list[Decoder] = []
    while engine.free_slots:
        answers.append(engine.open([Row(tuple(tokenizer.document_row("x")), 0.0)], [20]))
        await asyncio.wrap_future(answers[-1].prefilled)
    shared: dict[str, Any] = {
        "engine": engine,
        "tokenizer": tokenizer,
        "retriever": OneDocument(),
        "hello": control.Hello(),
        "max_sessions": 1,
        "metrics": PeerMetrics(lambda: 0),
        "decode": None,
        "keys": None,
        "usage": None,
    }
    asked = control.Fetch(query="?", top_k=1, raw=False, weights=model.weights)
    fetched = CloudFetch(Shared(**shared), asked).messages()
    assert isinstance(await anext(fetched), control.Fetched)

    async def collect() -> bytes:
        return b"".join([each.data async for each in fetched if isinstance(each, Bulk)])

    rest = asyncio.ensure_future(collect())
    await asyncio.wrap_future(engine.submit_urgent(lambda: None))
    assert not rest.done()
    engine.close(answers.pop())
    data = await rest
    assert len(data) == model.packed_bytes(len(tokenizer.document_row(HIT.text)))
    assert isinstance(TensorKV.unpack(data, *model._kv_shape), TensorKV)
    await asyncio.to_thread(tiny.freed, engine)
    assert engine.free_slots == 1
    await asyncio.to_thread(engine.stop)


# When those without a place come back: as places become free, and not all at once.


def test_they_come_back_as_answers_end() -> None:
    turns = ReturnTimes()
    # Four answers of 8 s: one ends every 2 s.
    assert [turns.next(100.0, 8.0, 4) for _ in range(3)] == [2, 4, 6]
    assert turns.next(105.0, 8.0, 4) == 3  # 8 s after the first was told
    assert turns.next(200.0, 8.0, 4) == 2  # all of those have been


def test_nobody_is_told_to_come_at_once_or_in_an_hour() -> None:
    turns = ReturnTimes()
    assert turns.next(0.0, 0.01, 64) == 1
    assert turns.next(0.0, 3600.0, 1) == 30
    assert turns.next(0.0, 3600.0, 1) == 30
