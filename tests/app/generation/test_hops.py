"""Two hops are read as one answer: positions, characters, sources and statistics of the whole.

Covers `app.generation.retrieval`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from app.generation.accumulator import AnswerState
from app.generation.events import (
    Detailed,
    Details,
    Event,
    Finished,
    GenerationRequest,
    PeerChanged,
    Source,
    SourcesFound,
    TextDelta,
    TokenDetail,
)
from app.generation.hops import Hops
from app.settings import Cloud
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.sampling.params import Mode, Sampling

QUESTION = "What is the capital of the country I fly to in June?"
FIRST, SECOND = "I fly to Bhutan on 14 June.", "The capital of Bhutan is Thimphu."


def source(side: str, text: str) -> Source:
    return Source(side, text[:5], "title", text, 0.9, 1.0)


NOTE, CAPITAL = source("private", FIRST), source("public", SECOND)


@pytest.fixture
def request_(tokenizer: Tokenizer) -> GenerationRequest:
    conversation = tokenizer.conversation([Message("user", QUESTION)])
    return GenerationRequest(
        tuple(conversation), QUESTION, Sampling(seed=3, stream=2), details=Details(), hops=1
    )


def hop_of(
    tokenizer: Tokenizer, text: str, found: Source, *, joint: bool = True, end: bool = True
) -> list[Event]:
    """The events of a pass that writes a text, a token at a time, from one source."""
    (last,) = tokenizer.end_ids
    tokens = [*tokenizer.encode(text), *[last] * end]
    events: list[Event] = [SourcesFound((found,)), PeerChanged(joint, 0, "so it is")]
    length = 0
    for position, token in enumerate(tokens):
        piece = "" if token == last else tokenizer.decode([token])
        events.append(TextDelta(piece, (token,)))
        detail = TokenDetail(
            position, token, piece, length, length + len(piece), -0.5, documents=(1.0,)
        )
        length = detail.end
        events.append(Detailed((detail,)))
    stats = {"ttft_ms": 10.0, "ms_per_token": 2.0, "tv": 0.5, "window": 2.0}
    events.append(
        Finished(
            "stop" if end else "length",
            9,
            len(tokens),
            ((0, len(tokens)),) if joint else (),
            stats,
            "=" * len(tokens) if joint else "",
            (("t", 0, 1.0, 2.0),),
        )
    )
    return events


def placed(hops: Hops, events: Iterable[Event]) -> list[Event]:
    return [each for event in events for each in hops.take(event)]


def test_two_hops_are_one_answer(tokenizer: Tokenizer, request_: GenerationRequest) -> None:
    hops = Hops(request_, tokenizer, 64)
    events = placed(hops, hop_of(tokenizer, FIRST, NOTE))
    (following,) = hops.next()
    list(hops.begin(following))
    *second, ended = hop_of(tokenizer, SECOND, CAPITAL)
    assert isinstance(ended, Finished)
    events += placed(hops, [*second, replace(ended, stop="\n")])
    assert not hops.next(), "one hop was allowed"
    events += hops.finish()

    whole = AnswerState(request_)
    for event in events:
        whole.take(event)
    first = len(tokenizer.encode(FIRST)) + 1
    count = first + len(tokenizer.encode(SECOND)) + 1
    assert whole.text == f"{FIRST} {SECOND}"
    assert whole.sources == (NOTE, replace(CAPITAL, hop=1))
    assert [d.position for d in whole.details] == list(range(count))
    assert "".join(d.text for d in whole.details) == whole.text
    assert all(whole.text[d.start : d.end] == d.text for d in whole.details)
    assert {d.documents for d in whole.details[:first]} == {(1.0,)}
    assert {d.documents for d in whole.details[first:]} == {(0.0, 1.0)}
    assert sum(isinstance(event, PeerChanged) for event in events) == 1

    end = whole.end
    assert isinstance(events[-1], Finished)
    assert (end.reason, end.prompt_tokens, end.completion_tokens) == ("stop", 9, count)
    assert end.stop == "\n"
    assert (end.hops, end.participation, end.verdicts) == ((first,), ((0, count),), "=" * count)
    assert [(kind, position) for kind, position, *_ in end.trace] == [("t", 0), ("t", first)]
    assert end.stats == {
        "ttft_ms": 10.0, "ms_per_token": 2.0, "tv": 0.5, "window": 2.0,
        "passes": 2,
    }  # fmt: skip


def test_each_detail_follows_its_text(tokenizer: Tokenizer, request_: GenerationRequest) -> None:
    hops = Hops(request_, tokenizer, 64)
    events = placed(hops, hop_of(tokenizer, FIRST, NOTE))
    (following,) = hops.next()
    list(hops.begin(following))
    events += [*placed(hops, hop_of(tokenizer, SECOND, CAPITAL)), *hops.finish()]
    written = 0
    for event in events:
        if isinstance(event, TextDelta):
            written += len(event.text)
        if isinstance(event, Detailed):
            assert all(detail.end <= written for detail in event.details)


def test_the_next_pass_asks_again_after_the_text(
    tokenizer: Tokenizer, request_: GenerationRequest
) -> None:
    hops = Hops(request_, tokenizer, 64)
    placed(hops, hop_of(tokenizer, FIRST, NOTE))
    (following,) = hops.next()
    turns = [("user", QUESTION), ("assistant", FIRST), ("user", QUESTION)]
    expected = tokenizer.conversation([Message(*turn) for turn in turns])
    request = following.request
    assert list(request.conversation) == expected
    assert request.query == following.follow_up.query
    assert request.sampling == replace(request_.sampling, stream=request_.sampling.stream + 65536)
    assert request.max_tokens == 64 - len(tokenizer.encode(FIRST)) - 1
    assert not following.private
    assert not request.private
    assert following.among([NOTE, CAPITAL]) == [CAPITAL]


def test_a_question_that_is_left_is_asked_and_judged_as_one(
    tokenizer: Tokenizer, request_: GenerationRequest
) -> None:
    asked = "What is the capital of Bhutan, and when does the choir meet?"
    hops = Hops(replace(request_, query=asked), tokenizer, 64)
    placed(hops, hop_of(tokenizer, SECOND, CAPITAL))
    again = tokenizer.asked_again("when does the choir meet?")
    for following in hops.next():
        assert following.agreed
        assert following.request.query == "when does the choir meet?"
        assert following.request.judged
        assert list(following.request.conversation)[-len(again) :] == again


@pytest.mark.parametrize(
    ("cloud", "found", "private"),
    [
        (Cloud.WHEN_NEEDED, CAPITAL, [True, False]),
        (Cloud.WHEN_NEEDED, NOTE, [True, False]),
        (Cloud.ALWAYS, CAPITAL, [True, False]),
        (Cloud.ALWAYS, NOTE, [False, True]),
        (Cloud.NEVER, NOTE, [True]),
    ],
)
def test_both_sides_may_have_what_is_left(
    tokenizer: Tokenizer,
    request_: GenerationRequest,
    cloud: Cloud,
    found: Source,
    private: list[bool],
) -> None:
    asked = "When do I fly? What is the capital of Bhutan? When does the choir meet?"
    hops = Hops(replace(request_, query=asked, cloud=cloud), tokenizer, 64)
    placed(hops, hop_of(tokenizer, found.text, found, joint=cloud is not Cloud.NEVER))
    assert [following.private for following in hops.next()] == private


def test_a_private_answer_has_what_is_left_of_the_device_alone(
    tokenizer: Tokenizer, request_: GenerationRequest
) -> None:
    asked = "When do I fly to Bhutan? Where is my passport? When does the choir meet?"
    for change in ({"cloud": Cloud.NEVER}, {"mode": Mode.LOCAL}):
        hops = Hops(replace(request_, query=asked, hops=2, **change), tokenizer, 64)
        events = placed(hops, hop_of(tokenizer, FIRST, NOTE, joint=False))
        (second,) = hops.next()
        assert second.request.query == "Where is my passport? When does the choir meet?"
        events += hops.begin(second)
        passport = "The passport is in the desk."
        source_of_it = source("private", passport)
        events += placed(hops, hop_of(tokenizer, passport, source_of_it, joint=False))
        (third,) = hops.next()
        assert not third.among([NOTE, source_of_it]), "no sentence is said twice"
        assert third.private
        assert third.request.query == "When does the choir meet?"
        events += hops.begin(third)
        choir = "The choir meets on Mondays."
        events += placed(hops, hop_of(tokenizer, choir, source("private", choir), joint=False))
        assert not hops.next()
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (
            f"{FIRST} {passport} {choir}"
        )
        assert sum(isinstance(event, PeerChanged) for event in events) == 1, "none says it again"


def test_a_text_of_the_cloud_is_gone_on_with_on_the_device_alone(
    tokenizer: Tokenizer, request_: GenerationRequest
) -> None:
    question = replace(request_, query="Who travels along to the capital of Bhutan?")
    hops = Hops(question, tokenizer, 64)
    events = placed(hops, hop_of(tokenizer, SECOND, CAPITAL))
    (following,) = hops.next()
    assert following.private
    assert following.request.private
    events += hops.begin(following)
    own = "Anna comes along to Thimphu."
    more = hop_of(tokenizer, own, source("private", own), joint=False)
    events += [*placed(hops, more), *hops.finish()]
    first = len(tokenizer.encode(SECOND)) + 1
    changes = [(e.joint, e.position) for e in events if isinstance(e, PeerChanged)]
    assert changes == [(True, 0), (False, first)]
    assert isinstance(end := events[-1], Finished)
    assert end.participation == ((0, first),)


@pytest.mark.parametrize(
    ("change", "limit", "ended"),
    [
        ({"hops": 0}, 64, True),
        ({"stop": (". The",)}, 64, True),
        ({"stop": (" ",)}, 64, True),
        ({"mode": Mode.CONTEXT}, 64, True),
        ({}, 12, True),
        ({}, 64, False),
    ],
)
def test_an_answer_ends_there(
    tokenizer: Tokenizer,
    request_: GenerationRequest,
    change: dict[str, object],
    limit: int,
    ended: bool,
) -> None:
    assert len(tokenizer.encode(FIRST)) + 1 >= 12
    hops = Hops(replace(request_, **change), tokenizer, limit)
    events = placed(hops, hop_of(tokenizer, FIRST, NOTE, end=ended))
    assert not hops.next()
    events += hops.finish()
    whole = AnswerState(request_)
    for event in events:
        whole.take(event)
    assert whole.text == FIRST
    assert len(whole.details) == whole.end.completion_tokens
    assert whole.end.hops == ()
    assert whole.end.stats["passes"] == 1
