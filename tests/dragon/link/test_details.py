"""Details of tokens: what goes in comes out, and nothing that no side says is taken."""

from __future__ import annotations

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.inference.logprobs import (
    MAX_ASKED,
    MAX_TOP,
    CloudDetail,
    DetailMessage,
    Question,
    Values,
)
from dragon.link.registry import encode
from tests.dragon.link.frames import decode

VOCABULARY = 5000
numbers = st.integers(0, (1 << 32) - 1)
tokens = st.integers(0, VOCABULARY - 1)
logprobs = st.floats(-1e4, 0.0, width=32)
details = st.builds(
    CloudDetail,
    numbers,
    numbers,
    logprobs,
    st.lists(st.floats(0.0, 1.0, width=32), min_size=1, max_size=32).map(tuple),
    st.dictionaries(tokens, logprobs, max_size=MAX_TOP).map(lambda top: tuple(top.items())),
)
questions = st.builds(Question, numbers, numbers, st.lists(tokens, max_size=40).map(tuple))
values = st.builds(Values, numbers, numbers, st.lists(logprobs, max_size=40).map(tuple))
DETAIL = CloudDetail(3, 7, -0.5, (0.25, 0.75), ((5, -0.5), (6, -1.5)))


@given(numbers, st.one_of(details, questions, values))
def test_what_goes_in_comes_out(stream: int, message: DetailMessage) -> None:
    assert decode(encode(message, stream), VOCABULARY) == (stream, message)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_means_something(data: bytes) -> None:
    for kind in (b"\x04", b"\x05", b"\x06", b""):
        with suppress(FrameError):
            decode(kind + data, VOCABULARY)


@pytest.mark.parametrize(
    "message",
    [
        CloudDetail(3, 7, math.nan, (1.0,), ()),
        CloudDetail(3, 7, 0.5, (1.0,), ()),
        CloudDetail(3, 7, -1.0, (1.5,), ()),
        CloudDetail(3, 7, -1.0, (math.nan,), ()),
        CloudDetail(3, 7, -1.0, (), ()),
        CloudDetail(3, 7, -1.0, (1.0,), ((VOCABULARY, -1.0),)),
        CloudDetail(3, 7, -1.0, (1.0,), ((-1, -1.0),)),
        CloudDetail(3, 7, -1.0, (1.0,), ((5, -1.0), (5, -1.0))),
        CloudDetail(3, 7, -1.0, (1.0,), ((5, -math.inf),)),
        CloudDetail(3, 7, -1.0, (1.0,), tuple((t, -1.0) for t in range(MAX_TOP + 1))),
        Question(3, 7, (VOCABULARY,)),
        Question(3, 7, tuple(range(MAX_ASKED + 1))),
        Values(3, 7, (math.nan,)),
        Values(3, 7, (1.0,)),
    ],
)
def test_what_no_side_says_is_refused(message: DetailMessage) -> None:
    with pytest.raises(FrameError):
        decode(encode(message, 1), VOCABULARY)


def test_a_frame_of_another_length_is_refused() -> None:
    frame = encode(DETAIL, 1)
    assert isinstance(frame, bytes)
    for wrong in (frame[:-1], frame + b"\0", frame[:10], b""):
        with pytest.raises(FrameError):
            decode(wrong, VOCABULARY)
    # A rounding above 0 is none.
    rounded = frame.replace(struct.pack("<f", -1.5), struct.pack("<f", 1e-6))
    assert decode(rounded, VOCABULARY)[1].top[1] == (6, 0.0)  # type: ignore[union-attr]
