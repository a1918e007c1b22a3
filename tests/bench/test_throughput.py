"""What a client makes of a stream that it read in parts."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.experiments.throughput import seen

TEXT = ("", "A", " b", "", " c")


def chunk(text: str | None, usage: int | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    body = {
        "choices": [] if usage else [{"delta": delta}],
        "usage": usage and {"completion_tokens": usage},
    }
    event = b"data: " + json.dumps(body).encode() + b"\n\n"
    return b"%x\r\n" % len(event) + event + b"\r\n"


STREAM = b"content-type: text/event-stream\r\n\r\n" + b"".join(map(chunk, TEXT))
END = chunk(None) + chunk(None, usage=7) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


@given(st.sets(st.integers(1, len(STREAM + END) - 1)))
def test_times_are_those_of_the_parts_that_ended_an_event(cuts: set[int]) -> None:
    whole = STREAM + END
    edges = [0, *sorted(cuts), len(whole)]
    parts = [(float(end), whole[start:end]) for start, end in pairwise(edges)]
    first, last = (whole.index(json.dumps(text).encode()) for text in ("A", " c"))
    found = seen(parts)
    assert found.tokens == 7
    line = whole.index(b"\n", first)
    assert found.first == min(end for end in edges if end >= line)
    line = whole.index(b"\n", last)
    assert found.last == min(end for end in edges if end >= line)


def test_a_stream_cut_short_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ended before its time"):
        seen([(1.0, STREAM)])
