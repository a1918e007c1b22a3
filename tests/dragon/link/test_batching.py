"""Bundles: the frames that went in, in their order; few messages; nothing else taken for one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link import batching, registry
from dragon.link.bodies import BinaryKind
from dragon.sampling.role import Role

BUNDLE = bytes([BinaryKind.BUNDLE])
binary = st.binary(min_size=1, max_size=40).filter(lambda frame: frame[:1] != BUNDLE)
small = binary.filter(lambda frame: frame[0] != BinaryKind.BULK)
frames_of_a_link = st.lists(binary | st.text(min_size=1, max_size=20), max_size=12)


def by_itself(frame: str | bytes) -> bool:
    return isinstance(frame, str) or frame[0] == BinaryKind.BULK


@given(frames_of_a_link)
def test_what_goes_in_comes_out_in_order(frames: list[str | bytes]) -> None:
    assert all(list(batching.messages([frame])) == [frame] for frame in frames)
    messages = list(batching.messages(frames))
    assert [frame for message in messages for frame in batching.split(message)] == frames
    changes = sum(by_itself(one) or by_itself(other) for one, other in pairwise(frames))
    assert len(messages) == min(len(frames), 1 + changes)


def joined(frames: list[bytes]) -> bytes:
    return BUNDLE + b"".join(len(frame).to_bytes(4, "little") + frame for frame in frames)


@given(st.lists(small, min_size=1, max_size=4), st.binary(max_size=6), st.integers(0, 80))
def test_what_is_not_just_frames_is_refused(frames: list[bytes], more: bytes, cut: int) -> None:
    whole = joined(frames)
    assert list(batching.split(whole)) == frames
    ends = {len(joined(frames[:count])) for count in range(1, len(frames) + 1)}
    if (short := whole[: 1 + cut]) and len(short) not in ends:
        with pytest.raises(FrameError):
            batching.split(short)
    if 0 < len(more) < 5:  # no room for a length and a frame
        with pytest.raises(FrameError):
            batching.split(whole + more)


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
        BUNDLE + b"\x06\x00\x00\x00" + bytes([BinaryKind.BULK]) + b"\x01\x00\x00\x00x",
        BUNDLE + b"\x01\x00\x00\x00x" * (batching.MAX_BYTES // 5 + 1),
    ],
)
def test_a_bundle_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(FrameError, match="bundle"):
        batching.split(message)


def test_a_bundle_is_no_frame() -> None:
    (message,) = batching.messages([b"x", b"y"])
    with pytest.raises(FrameError):
        registry.decode(message, Role.CLOUD, 8192)


def test_what_waits_is_taken_together_and_not_without_end() -> None:
    async def taken(frames: list[str | bytes]) -> list[list[str | bytes]]:
        queue: asyncio.Queue[str | bytes] = asyncio.Queue()
        for frame in frames:
            queue.put_nowait(frame)
        out = []
        while not queue.empty():
            out.append(batching.take(await queue.get(), queue))
        return out

    small: list[str | bytes] = [b"a", "b", b"c"]
    assert asyncio.run(taken(small)) == [small]
    large: list[str | bytes] = [bytes(50_000)] * 4
    assert list(map(len, asyncio.run(taken(large)))) == [1, 1, 1, 1]
    drafts: list[str | bytes] = [bytes(10_000)] * 6
    assert list(map(len, asyncio.run(taken(drafts)))) == [4, 2]
