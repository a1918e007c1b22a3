"""Frames of document KV: bounded, whole, and nothing else taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link import bulk_frames, codec, control
from dragon.link.bulk_frames import MAX_PAYLOAD, decode, encode, is_bulk


@pytest.mark.parametrize("size", [1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD - 7])
def test_what_goes_in_comes_out_in_order(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    frames = list(encode(7, data))
    assert all(is_bulk(frame) and len(frame) < control.MAX_CONTROL_BYTES for frame in frames)
    assert [decode(frame)[0] for frame in frames] == [7] * len(frames)
    assert b"".join(decode(frame)[1] for frame in frames) == data
    overhead = sum(map(len, frames)) - size
    assert overhead == 5 * len(frames)  # the bytes themselves are not inflated


def test_nothing_is_no_frame() -> None:
    assert list(encode(7, b"")) == []


@given(st.binary(max_size=64))
def test_random_bytes(frame: bytes) -> None:
    if is_bulk(frame) and len(frame) > 5:
        assert decode(frame)[1] == frame[5:]
    else:
        with pytest.raises(FrameError):
            decode(frame)


def test_a_frame_over_the_bound_is_refused() -> None:
    (frame,) = encode(7, bytes(MAX_PAYLOAD))
    with pytest.raises(FrameError):
        decode(frame + b"x")


def test_a_side_that_expects_drafts_refuses_it() -> None:
    (frame,) = bulk_frames.encode(7, b"data")
    with pytest.raises(FrameError):
        codec.decode(frame, 8192)
