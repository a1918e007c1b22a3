"""Bundles: the frames that went in, in their order; few messages; nothing else taken for one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link import bulk_frames, bundles, codec

BUNDLE = bytes([bundles.KIND])
binary = st.binary(min_size=1, max_size=40).filter(lambda frame: frame[:1] != BUNDLE)
frames_of_a_link = st.lists(binary | st.text(min_size=1, max_size=20), max_size=12)


def by_itself(frame: str | bytes) -> bool:
    return isinstance(frame, str) or bulk_frames.is_bulk(frame)


@given(frames_of_a_link)
def test_what_goes_in_comes_out_in_order(frames: list[str | bytes]) -> None:
    messages = list(bundles.messages(frames))
    assert [frame for message in messages for frame in bundles.split(message)] == frames
    changes = sum(by_itself(one) or by_itself(other) for one, other in pairwise(frames))
    assert len(messages) == min(len(frames), 1 + changes)


@given(frames_of_a_link)
def test_a_frame_by_itself_is_a_message_as_it_is(frames: list[str | bytes]) -> None:
    for frame in frames:
        assert list(bundles.messages([frame])) == [frame]


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    try:
        frames = bundles.split(BUNDLE + data)
    except FrameError:
        return
    assert b"".join(len(f).to_bytes(4, "little") + f for f in map(_binary, frames)) == data


def _binary(frame: str | bytes) -> bytes:
    assert isinstance(frame, bytes)
    return frame


@pytest.mark.parametrize(
    "message",
    [
        BUNDLE,
        BUNDLE + b"\x01\x00",  # a length cut short
        BUNDLE + b"\x02\x00\x00\x00x",  # a frame cut short
        BUNDLE + b"\x00\x00\x00\x00",  # an empty one
        BUNDLE + b"\x01\x00\x00\x00xy",  # something behind the last
        BUNDLE + b"\xff\xff\xff\xff" + bytes(50),
        BUNDLE + b"\x06\x00\x00\x00" + BUNDLE + b"\x01\x00\x00\x00x",  # one in another
    ],
)
def test_a_bundle_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(FrameError, match="bundle"):
        bundles.split(message)


def test_a_side_that_expects_drafts_refuses_it() -> None:
    (message,) = bundles.messages([b"x", b"y"])
    assert isinstance(message, bytes)
    with pytest.raises(FrameError):
        codec.decode(message, 8192)


def test_what_waits_is_taken_together_and_not_without_end() -> None:
    async def taken(frames: list[str | bytes]) -> list[list[str | bytes]]:
        queue: asyncio.Queue[str | bytes] = asyncio.Queue()
        for frame in frames:
            queue.put_nowait(frame)
        out = []
        while not queue.empty():
            out.append(bundles.take(await queue.get(), queue))
        return out

    small: list[str | bytes] = [b"a", "b", b"c"]
    assert asyncio.run(taken(small)) == [small]
    large: list[str | bytes] = [bytes(50_000)] * 4
    assert list(map(len, asyncio.run(taken(large)))) == [2, 2]
