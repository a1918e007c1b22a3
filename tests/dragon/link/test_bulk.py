"""Bulk data: bounded, whole, and as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link.bodies import MAX_PAYLOAD, Bulk, pieces
from dragon.link.control import MAX_CONTROL_BYTES
from dragon.link.registry import decode, encode
from dragon.sampling.role import Role


@pytest.mark.parametrize("size", [1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD - 7])
def test_what_goes_in_comes_out_in_order(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    frames = [encode(piece, 7) for piece in pieces(data)]
    assert all(len(frame) < MAX_CONTROL_BYTES for frame in frames)
    got = [decode(frame, Role.CLOUD, 1) for frame in frames]
    assert [stream for stream, _ in got] == [7] * len(frames)
    assert b"".join(message.data for _, message in got if isinstance(message, Bulk)) == data
    overhead = sum(map(len, frames)) - size
    assert overhead == 5 * len(frames)  # the bytes themselves are not inflated


def test_nothing_is_no_frame() -> None:
    assert list(pieces(b"")) == []


@given(st.binary(max_size=64))
def test_random_bytes(data: bytes) -> None:
    frame = b"\x03" + data
    if len(frame) > 5:
        assert decode(frame, Role.CLOUD, 1) == (int.from_bytes(data[:4], "little"), Bulk(data[4:]))
    else:
        with pytest.raises(FrameError):
            decode(frame, Role.CLOUD, 1)


def test_a_frame_over_the_bound_is_refused() -> None:
    (piece,) = pieces(bytes(MAX_PAYLOAD))
    frame = encode(piece, 7)
    with pytest.raises(FrameError, match="at most"):
        decode(frame + b"x", Role.CLOUD, 1)
