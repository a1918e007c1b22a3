"""Corrections: what goes in comes out, garbage is a `FrameError`. Covers `dragon.link.bodies`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link import registry
from dragon.protocol.messages import MAX_WINDOW, Correction
from dragon.sampling.role import Role

VOCABULARY = 151_936

u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
tokens = st.lists(st.integers(0, VOCABULARY - 1), max_size=MAX_WINDOW).map(tuple)
corrections = st.builds(Correction, u16, u32, u32, u32, tokens)


def frame_of(message: Correction) -> bytes:
    frame = registry.encode(message, 7)
    assert isinstance(frame, bytes)
    return frame


@given(corrections)
def test_comes_out_as_it_went_in(message: Correction) -> None:
    assert registry.decode(frame_of(message), Role.DEVICE, VOCABULARY) == (7, message)


def test_an_acknowledgement_is_small() -> None:
    assert len(frame_of(Correction(3, 1000, 1 << 31, 50_000, ()))) == 20


@given(corrections, st.data())
def test_cut_short_or_too_long(message: Correction, data: st.DataObject) -> None:
    frame = frame_of(message)
    end = data.draw(st.integers(0, len(frame) - 1))
    for wrong in (frame[:end], frame + b"\x01"):
        with pytest.raises(FrameError):
            registry.decode(wrong, Role.DEVICE, VOCABULARY)


def test_too_many_tokens() -> None:
    frame = frame_of(Correction(0, 0, 0, 0, (1,) * (MAX_WINDOW + 1)))
    with pytest.raises(FrameError, match="at most 64 tokens"):
        registry.decode(frame, Role.DEVICE, VOCABULARY)


def test_a_token_outside_the_vocabulary() -> None:
    with pytest.raises(FrameError, match="outside the vocabulary"):
        registry.decode(frame_of(Correction(0, 0, 0, 0, (9, 30))), Role.DEVICE, 30)


def test_a_cloud_sends_none() -> None:
    with pytest.raises(FrameError, match="does not send correction"):
        registry.decode(frame_of(Correction(0, 0, 0, 0, ())), Role.CLOUD, VOCABULARY)
