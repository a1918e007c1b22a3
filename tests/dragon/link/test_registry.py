"""Every kind of frame: round trips, refusals, and who sends what.

Covers the messages of `dragon.link.control` and, as text, those of a session;
binary bodies have tests of their own.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.errors import FrameError, OverloadedError
from dragon.link import registry
from dragon.link.bodies import Bulk
from dragon.link.control import (
    MAX_CONTROL_BYTES,
    MAX_PROBE,
    Close,
    Draining,
    Fault,
    Fetch,
    Fetched,
    Hello,
    Open,
    Ping,
    Pong,
    Probe,
    PublicDocument,
    Ready,
    ScoreTaken,
    ScoreText,
    Scoring,
)
from dragon.link.registry import Message, encode
from dragon.localizable import localizable
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Resync, Score, Target
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.params import MAX_SLOPE, Mode, Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from tests.dragon.link.frames import decode

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
streams = st.integers(0, (1 << 32) - 1)
incarnation = st.integers(0, (1 << 16) - 1)
token_lists = st.lists(st.integers(0, (1 << 31) - 1), max_size=8).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)
likelihoods = st.floats(max_value=0.0, allow_infinity=False)
numbers = st.integers(0, 1 << 31)

documents = st.builds(PublicDocument, id=text, title=text, text=text, score=finite, weight=finite)
asking: dict[str, st.SearchStrategy[Any]] = {
    "conversation": token_lists,
    "raw": st.booleans(),
    "query": text,
    "slope": st.floats(0.0, MAX_SLOPE),
    "top_k": st.integers(0, 32),
    "sampling": st.builds(
        Sampling,
        temperature=st.floats(0.0, 2.0),
        top_p=st.floats(0.0, 1.0, exclude_min=True),
        seed=st.integers(-(1 << 63), (1 << 64) - 1),
        stream=streams,
        logit_bias=st.dictionaries(
            st.integers(0, (1 << 31) - 1), st.floats(-100.0, 100.0), max_size=4
        ).map(lambda biases: tuple(biases.items())),
        presence_penalty=st.floats(-2.0, 2.0),
        frequency_penalty=st.floats(-2.0, 2.0),
        repetition_penalty=st.floats(0.01, 2.0),
        top_k=st.integers(0, (1 << 31) - 1),
        min_p=st.floats(0.0, 1.0),
        min_tokens=st.integers(0, 1 << 16),
    ),
}
opens = st.builds(
    Open,
    **asking,
    details=st.booleans(),
    mode=st.sampled_from(Mode),
    max_tokens=st.integers(1, 1 << 16),
    catch_up=st.booleans(),
    committed=token_lists,
    joint=st.booleans(),
)
controls: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, tokenizer=text, noise=text, relevance=text, model=text),
    opens,
    st.builds(
        Ready,
        documents=st.lists(documents, max_size=3).map(tuple),
        horizon=numbers,
        log_h=st.integers(-LOG_H_LIMIT, LOG_H_LIMIT),
    ),
    st.builds(
        Fetch,
        query=text,
        top_k=st.integers(0, 32),
        raw=st.booleans(),
        weights=st.none() | text,
    ),
    st.builds(Fetched, documents=st.lists(documents, max_size=3).map(tuple)),
    st.builds(
        Join,
        incarnation=incarnation,
        base=st.integers(0, 1 << 16),
        tail=token_lists,
    ),
    st.builds(
        ScoreText,
        **asking,
        text=token_lists.filter(bool),
        prompt=st.integers(0, 1 << 16),
        max_tokens=st.integers(0, 1 << 16),
    ),
    st.builds(Scoring, documents=st.lists(documents, max_size=3).map(tuple)),
    st.builds(ScoreTaken),
    st.builds(Resync, incarnation=incarnation),
    st.builds(
        Candidate,
        incarnation=incarnation,
        tokens=token_lists.filter(bool),
        log_likelihood=likelihoods,
        log_h=st.integers(-LOG_H_LIMIT, LOG_H_LIMIT),
    ),
    st.builds(
        Score,
        incarnation=incarnation,
        log_likelihood=likelihoods,
    ),
    st.builds(Close, reason=text),
    st.builds(
        Fault,
        code=text,
        message=text,
        values=st.dictionaries(text, text | numbers, max_size=8),
        retry_s=st.none() | st.integers(1, 86_400),
    ),
    st.builds(Probe, payload=text, reply=st.integers(0, MAX_PROBE)),
    st.builds(Ping, number=numbers),
    st.builds(Pong, number=numbers, load=st.floats(0.0, 1.0)),
    st.builds(Draining),
)

OPEN = Open(
    conversation=(1, 2, 3),
    raw=False,
    query="what?",
    mode=Mode.COUPLED,
    sampling=Sampling(seed=-1, logit_bias=((5, 1.5),)),
    max_tokens=10,
    top_k=3,
    catch_up=True,
)


def decode_or_refuse(frame: str) -> None:
    """A message that can be sent again, or a `FrameError`."""
    try:
        stream, message = decode(frame)
    except FrameError:
        return
    assert decode(encode(message, stream)) == (stream, message)


@given(controls, streams)
def test_round_trip(message: Message, stream: int) -> None:
    assert decode(encode(message, stream)) == (stream, message)


@settings(max_examples=500)
@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda raw: raw.decode("latin-1")))
def test_random_text(frame: str) -> None:
    decode_or_refuse(frame)


@settings(max_examples=300)
@given(controls, st.data())
def test_damaged_frames(message: Message, data: st.DataObject) -> None:
    frame = encode(message)
    at = data.draw(st.integers(0, len(frame) - 1))
    decode_or_refuse(frame[:at])
    decode_or_refuse(frame[:at] + chr(ord(frame[at]) ^ (1 << data.draw(st.integers(0, 6)))))
    flipped = chr(ord(frame[at]) ^ (1 << data.draw(st.integers(0, 6))))
    decode_or_refuse(frame[:at] + flipped + frame[at + 1 :])


JUNK: list[Any] = [
    None, True, -1, 1.5, 10**30, 1 << 64, "", "x", [], {}, [1.5], ["1"], [-1], [1 << 31],
    {"a": 1}, "\x00", float("nan"), float("inf"), -float("inf"),
]  # fmt: skip


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_every_field_of_an_open_with_junk_in_it(junk: Any) -> None:
    whole = json.loads(encode(OPEN))
    for name in whole:
        decode_or_refuse(json.dumps({**whole, name: junk}))
    sampling = whole["sampling"]
    for name in (*sampling, "another"):
        decode_or_refuse(json.dumps({**whole, "sampling": {**sampling, name: junk}}))


@pytest.mark.parametrize(
    "changed", [{"temperature": 3.0}, {"top_k": -1}, {"logit_bias": [[5, 1.0], [5, 2.0]]}, {"x": 1}]
)
def test_sampling_parameters_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    whole = json.loads(encode(OPEN))
    with pytest.raises(FrameError, match="not a control message: open"):
        decode(json.dumps({**whole, "sampling": {**whole["sampling"], **changed}}))


@pytest.mark.parametrize("slope", [-1.0, 61.0, math.nan, math.inf, "8"])
def test_weights_out_of_range_are_refused(slope: object) -> None:
    whole = json.loads(encode(OPEN))
    assert decode(json.dumps({**whole, "slope": 60})) == decode(
        encode(OPEN.model_copy(update={"slope": 60.0}))
    )
    with pytest.raises(FrameError, match="not a control message"):
        decode(json.dumps({**whole, "slope": slope}))


CANDIDATE = {
    "kind": "candidate",
    "stream_id": 1,
    "incarnation": 0,
    "tokens": [5],
    "log_likelihood": -1.5,
    "log_h": 0,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", []),
        ("tokens", [-1]),
        ("tokens", [1] * ((1 << 16) + 1)),
        ("log_likelihood", 0.1),
        ("log_likelihood", -math.inf),
        ("log_likelihood", math.nan),
        ("log_likelihood", "-1.5"),
        ("log_h", LOG_H_LIMIT + 1),
        ("log_h", 0.5),
    ],
    ids=range(9),
)
def test_a_candidate_is_bounded(name: str, value: Any) -> None:
    assert isinstance(decode(json.dumps(CANDIDATE))[1], Candidate)
    with pytest.raises(FrameError, match=f"{name}|line 1 column"):
        decode(json.dumps({**CANDIDATE, name: value}))


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        "null",
        '{"kind":"draft"}',
        '{"kind":"ping"}',
        '{"kind":"ping","number":"1"}',
        '{"kind":"ping","number":1,"extra":2}',
        '{"kind":"ping","number":1e400}',
        '{"kind":"ping","number":' + "9" * 30 + "}",
        '{"kind":"ping","number":' + "9" * 5000 + "}",
        '{"kind":"join","stream_id":1,"incarnation":65536,"base":0,"tail":[]}',
        '{"kind":"join","stream_id":1,"incarnation":1,"base":-1,"tail":[]}',
        '{"kind":"join","stream_id":1,"incarnation":1,"base":0,"tail":[-1]}',
        '{"kind":"join","stream_id":4294967296,"incarnation":1,"base":0,"tail":[]}',
        "[" * 100_000,
        '{"kind":"ready","stream_id":1,"documents":[],"log_h":NaN,"horizon":5}',
        '{"kind":"ready","stream_id":1,"documents":[],"log_h":Infinity,"horizon":5}',
        '{"kind":"ready","stream_id":1,"documents":[],"log_h":-Infinity,"horizon":5}',
        '{"kind":"close","stream_id":1,"reason":"\\ud800"}',
        "\ud800",
    ],
    ids=range(21),
)
def test_refused(frame: str) -> None:
    with pytest.raises(FrameError):
        decode(frame)


def test_a_fault_says_what_an_error_says_in_whatever_language() -> None:
    what = localizable("kind.gif", "a GIF image")
    message = localizable("file.other", "{what} of {size} MB", what=what, size=3)
    fault = Fault.of(OverloadedError(message, retry_s=7))
    decoded = decode(encode(fault, 1))[1]
    assert decoded == fault
    assert fault.retry_s == 7
    assert (fault.reason, fault.reason.code) == (message, "file.other")
    assert fault.reason.values == {"what": "a GIF image", "size": 3}
    plain = Fault.of(FrameError("x" * 5000))
    assert (plain.reason, plain.reason.code) == ("x" * 1000, FrameError.code)


def test_what_the_other_side_says_is_shown_on_a_line() -> None:
    line = "x\n12:00:00 ERROR all is lost " + "y" * 1000
    with pytest.raises(FrameError) as refused:
        registry.decode(json.dumps({"kind": "pong", "number": 1, line: 1}), Role.CLOUD, 10)
    begins, _, ends = refused.value.message.partition("…")
    assert begins.startswith("not a control message: pong.x 12:00:00 ERROR all is lost y")
    assert len(begins) < 130
    assert ends == ": Extra inputs are not permitted"
    reason = Fault(code="x", message=line, values={"why": "a\nb", "count": 3}).reason
    assert reason.startswith("x 12:00:00 ERROR all is lost y")
    assert len(reason) == 1000
    assert reason.values == {"why": "a b", "count": 3}


def test_a_fault_of_a_later_version_can_be_read() -> None:
    frame = '{"kind":"error","code":"handshake.version","message":"too old","news":1}'
    fault = decode(frame)[1]
    assert isinstance(fault, Fault)
    assert fault.reason == "too old"


def test_sizes_are_bounded() -> None:
    with pytest.raises(FrameError, match="at most"):
        decode(" " * (MAX_CONTROL_BYTES + 1))
    with pytest.raises(FrameError):
        decode(encode(OPEN).replace("[1,2,3]", str([1] * ((1 << 16) + 1))))
    with pytest.raises(FrameError):
        decode('{"kind":"close","stream_id":1,"reason":"' + "x" * 70_000 + '"}')


SIDE = Side(WireDistribution.of([5], [1]), 0)


@pytest.mark.parametrize(
    ("message", "sender"),
    [
        (OPEN, Role.DEVICE),
        (Join(1, 0, (5,)), Role.DEVICE),
        (Close(reason="over"), Role.DEVICE),
        (Correction(1, 0, 0, 0, ()), Role.DEVICE),
        (ScoreTaken(), Role.DEVICE),
        (Resync(1), Role.CLOUD),
        (Ready(documents=(), horizon=1, log_h=0), Role.CLOUD),
        (Score(1, -1.0), Role.CLOUD),
        (Bulk(b"data"), Role.CLOUD),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_side_sends_it_and_the_other_does_not(message: Message, sender: Role) -> None:
    frame = encode(message, 3)
    assert registry.decode(frame, sender, 1 << 31) == (3, message)
    with pytest.raises(FrameError, match=f"a {sender.other} does not send"):
        registry.decode(frame, sender.other, 1 << 31)


@pytest.mark.parametrize(
    "message",
    [
        OPEN.model_copy(update={"conversation": (1, 99)}),
        OPEN.model_copy(update={"committed": (99,)}),
        OPEN.model_copy(update={"sampling": Sampling(logit_bias=((99, 1.0),))}),
        Join(1, 0, (5, 99)),
        Candidate(1, (99,), -1.0, 0),
        Correction(1, 0, 0, 0, (5, 99)),
        Draft(0, 0, 0, 0, 0, 99, 0, SIDE),
        Target(0, 0, 99, True, True, Role.DEVICE),
    ],
    ids=lambda message: type(message).__name__,
)
def test_tokens_outside_the_vocabulary_are_refused(message: Message) -> None:
    frame = encode(message, 3)
    assert decode(frame, 100) == (3, message)
    with pytest.raises(FrameError, match="vocabulary of 99"):
        decode(frame, 99)
