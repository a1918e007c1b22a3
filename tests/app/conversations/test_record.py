"""The stored record of an answer is what it has always been: databases outlive releases."""

from __future__ import annotations

from dataclasses import asdict

import orjson
import pytest

from app.conversations.record import Before, Ending, Written
from app.generation.accumulator import AnswerState
from app.generation.events import (
    Citation,
    Cited,
    Detailed,
    Finished,
    GenerationRequest,
    PeerChanged,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from app.peer_link.status import Refusal
from app.problems import INTERNAL
from app.storage.tables import MessageState
from dragon.localizable import localizable
from dragon.sampling.params import Sampling
from tests.fakes import SOURCE

ASKED = {
    "mode": "oneway", "cloud": "always", "temperature": 0.15, "seed": 4, "left_out": 2,
    "documents": None, "model": "a model",
}  # fmt: skip
FOUND = {
    "sources": [asdict(SOURCE)],
    "nothing_relevant": False,
    "unread_documents": 1,
    "closest": [],
}
DETAIL = TokenDetail(0, 7, "Under", 0, 5, -0.25, (), 0.75, (0.25,), 0.125)
STORED = {
    "position": 0, "text": "Under", "start": 0, "end": 5,
    "cloud": 0.75, "documents": (0.25,), "tv": 0.125,
}  # fmt: skip


@pytest.fixture
def answer() -> AnswerState:
    request = GenerationRequest((1, 2), "?", Sampling(temperature=0.15, seed=4), id="answer-1")
    state = AnswerState(request)
    for event in (
        PeerChanged(False, 0, "not there yet"),
        SourcesFound((SOURCE,), unread_documents=1),
        TextDelta("Under", (7,)),
        Detailed((DETAIL,)),
        PeerChanged(False, 1, "still not there"),
        TextDelta(" the", (8,)),
        PeerChanged(True, 2, "back"),
        PeerChanged(True, 2, "back"),
        TextDelta(" mat", (9,)),
    ):
        state.take(event)
    return state


def test_a_finished_answer(answer: AnswerState) -> None:
    answer.take(Finished("stop", 2, 3, ((2, 3),), {"tv": 0.5}, "=", (("t", 0, 1.0, 1.0),), (1,)))
    written = Written(Before(), 2, answer, Ending(MessageState.DONE), "a model")
    assert (written.text, written.tokens) == ("Under the mat", [STORED])
    stats = {
        "tv": 0.5, "participation": [[2, 3]], "verdicts": "=",
        "trace": [["t", 0, 1.0, 1.0]], "asked": ASKED,
    }  # fmt: skip
    assert orjson.loads(orjson.dumps(written.record)) == {
        "seams": [[5, False, "still not there"], [9, True, "back"]],
        "ledgers": ["answer-1"],
        "asked": ASKED,
        **FOUND,
        "done": {
            "finish_reason": "stop",
            "ledger": "answer-1",
            "usage": {"prompt_tokens": 2, "completion_tokens": 3},
            "dragon": stats,
            "ledgers": ["answer-1"],
        },
    }


def test_citations_count_in_the_whole_text(answer: AnswerState) -> None:
    answer.take(Cited((Citation(1, 2, 0),)))
    written = Written(Before("Look: "), 0, answer, Ending(MessageState.DONE))
    answer.take(Finished("stop", 2, 3))
    assert written.record["citations"] == [{"start": 7, "end": 8, "source": 0}]


def test_a_continued_answer_keeps_what_stood_before(answer: AnswerState) -> None:
    seams = [[3, False, "lost"]]
    before = Before("Look: ", {"seams": seams, "ledgers": ["answer-0"], "private_from": 6}, ("t",))
    written = Written(before, 0, answer, Ending(MessageState.STOPPED))
    assert written.text == "Look: Under the mat"
    assert written.tokens == ["t", STORED | {"start": 6, "end": 11}]
    record = written.record
    assert record["seams"] == [[3, False, "lost"], [15, True, "back"]]
    assert seams == [[3, False, "lost"]], "what is stored is not changed in place"
    assert (record["ledgers"], record["private_from"]) == (["answer-0", "answer-1"], 6)
    assert record["done"] == {
        "finish_reason": "cancelled",
        "ledger": "answer-1",
        "usage": {"prompt_tokens": 2, "completion_tokens": 3},
        "dragon": {"participation": [(2, 3)]},
        "ledgers": ["answer-0", "answer-1"],
    }


def test_why_the_cloud_is_away_is_kept_unless_it_joins(answer: AnswerState) -> None:
    full = Refusal.now(localizable("peer.full", "full"), 3).message
    answer.take(PeerChanged(False, 3, full, refused=True))
    record = Written(Before(), 0, answer, Ending(MessageState.ERROR, INTERNAL)).record
    assert record["away"] == "full: try again in 3 s"
    codes = {field: message["code"] for field, message in record["localizable"].items()}
    assert codes == {"away": "peer.again", "message": "device.failed"}
    answer.take(PeerChanged(True, 3, "back"))
    assert "away" not in Written(Before(), 0, answer).record


def test_a_text_without_sources_is_a_phrase_where_the_model_only_quotes() -> None:
    answer = AnswerState(GenerationRequest((1,), "?", Sampling()))
    answer.take(SourcesFound((), declines=True))
    assert "phrases" not in Written(Before(), 0, answer).record
    answer.take(TextDelta("None.", (1,)))
    assert Written(Before(), 0, answer).record["phrases"] == [[0, 5, "no_answer"]]
    before = Before("Look: ", {"phrases": [[0, 4, "redacted"]]})
    written = Written(before, 0, answer)
    assert written.phrases == [[0, 4, "redacted"], [6, 11, "no_answer"]]
    answer.take(SourcesFound((SOURCE,), declines=True))
    assert written.phrases == [[0, 4, "redacted"]]


@pytest.mark.parametrize("asked", [Sampling(min_tokens=1), Sampling(grammar="start: /a/")])
def test_a_text_that_cannot_be_a_quotation_is_no_phrase(asked: Sampling) -> None:
    answer = AnswerState(GenerationRequest((1,), "?", asked))
    answer.take(SourcesFound((), declines=True))
    answer.take(TextDelta("None.", (1,)))
    assert "phrases" not in Written(Before(), 0, answer).record


def test_that_a_part_of_the_clouds_corpus_was_not_searched_is_kept(answer: AnswerState) -> None:
    assert "unsearched" not in Written(Before(), 0, answer).record
    answer.take(PeerChanged(True, 3, "back", unsearched=2))
    answer.take(PeerChanged(False, 3, "lost"))
    assert Written(Before(), 0, answer).record["unsearched"] == 2


def test_an_answer_that_fails(answer: AnswerState) -> None:
    written = Written(Before(), 2, answer, Ending(MessageState.ERROR, INTERNAL))
    assert written.record["error"] == INTERNAL.body()["error"]
    assert written.record["localizable"]["message"]["code"] == "device.failed"
    assert "done" not in written.record


def test_an_answer_that_never_began() -> None:
    written = Written(Before(), ending=Ending(MessageState.STOPPED))
    end = {
        "finish_reason": "cancelled",
        "ledger": None,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0},
        "dragon": {"participation": []},
        "ledgers": [],
    }
    assert written.record == {"seams": [], "ledgers": [], "done": end}
