"""Drafts, targets and corrections: what goes in comes out, garbage is a `FrameError`.

Covers `dragon.link.bodies`.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.errors import FrameError
from dragon.link.bodies import DRAFT_HEAD_BYTES, MAX_DRAFT_BYTES
from dragon.link.registry import encode
from dragon.protocol.messages import MAX_WINDOW, Correction, Draft, Target
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.quantized import NUCLEUS_CAP, SCALE, WireDistribution
from dragon.sampling.role import Role
from tests.dragon.link.frames import decode

VOCABULARY = 151_936
HEAD = 5 + DRAFT_HEAD_BYTES  # kind and stream id come first


u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
tokens = st.integers(0, VOCABULARY - 1)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    ids = sorted(draw(st.sets(tokens, min_size=1, max_size=40)))
    weight = st.integers(1, 200) | st.integers(1, SCALE // 40)
    weights = draw(st.lists(weight, min_size=len(ids), max_size=len(ids)))
    position = draw(u32)
    return Draft(
        incarnation=draw(u16),
        epoch=draw(u32),
        position=position,
        committed=draw(st.integers(0, position)),
        checksum=draw(u32),
        token=draw(tokens),
        decode_us=draw(u32),
        side=Side(WireDistribution.of(ids, weights), draw(st.integers(-LOG_H_LIMIT, LOG_H_LIMIT))),
    )


targets = st.builds(Target, u16, u32, tokens)
token_lists = st.lists(tokens, max_size=MAX_WINDOW).map(tuple)
corrections = st.builds(Correction, u16, u32, u32, u32, token_lists)


def a_draft(size: int, vocabulary: int = VOCABULARY) -> Draft:
    chance = np.random.default_rng(size)
    ids = np.sort(chance.choice(vocabulary, size, replace=False))
    p = chance.dirichlet(np.full(size, 0.3))
    weights = np.maximum(np.rint(p * SCALE), 1).astype(np.int64)
    side = Side(WireDistribution.of(ids, weights), -1234)
    return Draft(3, 5, 700, 690, 0xDEADBEEF, int(ids[0]), 41_000, side)


def decode_or_refuse(frame: bytes) -> None:
    """A message that the other functions take, or a `FrameError`; no warning either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            generation, message = decode(frame, VOCABULARY)
        except FrameError:
            return
        assert decode(encode(message, generation), VOCABULARY) == (generation, message)
        if isinstance(message, (Draft, Target)):
            assert message.token < VOCABULARY
        if isinstance(message, Draft):
            assert message.side.wire.ids[-1] < VOCABULARY
            assert message.side.wire.total <= 2 * SCALE
            assert message.committed <= message.position


@given(u32, drafts() | targets | corrections)
def test_round_trip(generation: int, message: Draft | Target | Correction) -> None:
    frame = encode(message, generation)
    assert len(frame) <= MAX_DRAFT_BYTES
    assert decode(frame, VOCABULARY) == (generation, message)


def test_decode_time_is_clamped_to_its_field() -> None:
    slow = replace(a_draft(3), decode_us=1 << 40)
    _, got = decode(encode(slow, 1), VOCABULARY)
    assert got.decode_us == (1 << 32) - 1


def varint(value: int) -> list[int]:
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return [*out, value]


ENDS = [0, 1, 128, 1 << 14, 1 << 21, (1 << 21) + (1 << 28), (1 << 31) - 1]
AT_THE_ENDS = WireDistribution.of(ENDS, [1, 127, 128, 129, 16383, 16384, 1])


@pytest.mark.parametrize("wire", [a_draft(200, 1 << 31).side.wire, AT_THE_ENDS])
def test_varints_are_those_of_the_slow_reference(wire: WireDistribution) -> None:
    draft = replace(a_draft(1, 9), token=0, side=Side(wire, 0))
    values = [*np.diff(wire.ids, prepend=0).tolist(), *wire.weights.tolist()]
    frame = encode(draft, 1)
    assert frame[HEAD:] == bytes(byte for value in values for byte in varint(value))
    assert decode(frame, 1 << 31) == (1, draft)


@given(st.sets(tokens, min_size=60, max_size=60), st.lists(st.integers(0, 9), min_size=60))
def test_any_nucleus_of_sixty_tokens_is_small(ids: set[int], shares: list[int]) -> None:
    """Steps of 3 bytes are over 2^14, so at most 9 fit; weights of 3 bytes likewise, at most 4."""
    p = np.array(shares[:60]) + 1e-3
    weights = np.maximum(np.rint(p / p.sum() * SCALE), 1).astype(np.int64)
    draft = replace(a_draft(1), side=Side(WireDistribution.of(sorted(ids), weights), -1234))
    assert len(encode(draft, 1)) <= HEAD + 2 * 60 + 9 + 2 * 60 + 4 <= 300


def test_the_largest_nucleus_fits() -> None:
    draft = a_draft(NUCLEUS_CAP, 1 << 31)
    frame = encode(draft, 1)
    assert len(frame) <= MAX_DRAFT_BYTES
    assert decode(frame, 1 << 31) == (1, draft)


@settings(max_examples=1000)
@given(st.binary(max_size=120))
def test_random_bytes(frame: bytes) -> None:
    decode_or_refuse(frame)


@settings(max_examples=1000)
@given(st.sampled_from([1, 2]), st.binary(min_size=30, max_size=90))
def test_random_bytes_after_a_right_kind(kind: int, rest: bytes) -> None:
    decode_or_refuse(bytes([kind]) + rest)


@given(drafts(), st.binary(max_size=40), st.integers(0, 600))
def test_a_right_head_and_a_random_nucleus(draft: Draft, nucleus: bytes, size: int) -> None:
    head = encode(draft, 1)[:HEAD]
    decode_or_refuse(head[:-2] + struct.pack("<H", size) + nucleus)


@pytest.mark.parametrize(
    "message",
    [
        a_draft(1),
        a_draft(25),
        a_draft(60),
        Target(1, 9, 77, True, False, Role.DEVICE),
        Correction(3, 1000, 1 << 31, 50_000, (1, 300, 70_000)),
        Correction(3, 1000, 1 << 31, 50_000, ()),
    ],
)
def test_every_truncation_and_every_bit_flip(message: Draft | Target | Correction) -> None:
    frame = encode(message, 9)
    for size in range(len(frame)):
        with pytest.raises(FrameError):
            decode(frame[:size], VOCABULARY)
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        decode_or_refuse(bytes(flipped))
    with pytest.raises(FrameError):
        decode(frame + b"\x01", VOCABULARY)


@pytest.mark.parametrize("frame", [b"", b"\x00", b"\x09" * 40, bytes(MAX_DRAFT_BYTES + 1)])
def test_bad_sizes_and_kinds(frame: bytes) -> None:
    with pytest.raises(FrameError):
        decode(frame, VOCABULARY)


def test_numbers_too_long_are_refused() -> None:
    head = encode(a_draft(1), 1)[:HEAD]
    for number in (b"\x80" * 5 + b"\x01", b"\xff" * 9 + b"\x01"):
        with pytest.raises(FrameError, match="too long"):
            decode(head + b"\x01" + number, VOCABULARY)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    draft = a_draft(60)
    top = int(draft.side.wire.ids[-1])
    assert decode(encode(draft, 1), top + 1) == (1, draft)
    with pytest.raises(FrameError, match="vocabulary"):
        decode(encode(draft, 1), top)


def test_log_h_out_of_range_and_a_draft_before_its_own_text_are_refused() -> None:
    draft = a_draft(2)
    side = Side(draft.side.wire, LOG_H_LIMIT + 1)
    with pytest.raises(FrameError, match="log h"):
        decode(encode(Draft(0, 0, 4, 4, 0, 1, 0, side), 1), VOCABULARY)
    with pytest.raises(FrameError, match="committed"):
        decode(encode(Draft(0, 0, 4, 5, 0, 1, 0, draft.side), 1), VOCABULARY)


def test_an_acknowledgement_is_small() -> None:
    assert len(encode(Correction(3, 1000, 1 << 31, 50_000, ()), 7)) == 20


def test_too_many_tokens_of_a_correction() -> None:
    with pytest.raises(FrameError, match="at most 64 tokens"):
        decode(encode(Correction(0, 0, 0, 0, (1,) * (MAX_WINDOW + 1)), 7), VOCABULARY)
