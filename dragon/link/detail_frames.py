"""Details of tokens as binary frames: a fixed little-endian head, then int32 and float32 arrays.

They follow the text at leisure. Frames for a text that the receiver does not have are told by their
checksum, so they need no incarnation.
"""

from __future__ import annotations

import struct

import numpy as np

from dragon.errors import FrameError
from dragon.inference.logprobs import (
    MAX_ASKED,
    MAX_TOP,
    CloudDetail,
    DetailMessage,
    Question,
    Values,
)

_DETAIL, _QUESTION, _VALUES = 4, 5, 6  # 1 to 3 are drafts, targets and document KV
_MAX_ROWS = 64
# kind, generation, position, checksum, length of each of the two arrays
_HEAD = struct.Struct("<BIIIHH")
_LOGPROB = struct.Struct("<f")
# A log-probability may be above 0 by its rounding.
_ROUNDING = 1e-3


def encode(generation: int, message: DetailMessage) -> bytes:
    """The binary frame of a message that belongs to a generation."""
    at = generation, message.position, message.checksum
    match message:
        case CloudDetail():
            ids, values = zip(*message.top, strict=True) if message.top else ((), ())
            return (
                _HEAD.pack(_DETAIL, *at, len(message.shares), len(ids))
                + _LOGPROB.pack(message.logprob)
                + np.array([*message.shares, *values], "<f4").tobytes()
                + np.array(ids, "<i4").tobytes()
            )
        case Question():
            tokens = np.array(message.tokens, "<i4")
            return _HEAD.pack(_QUESTION, *at, len(tokens), 0) + tokens.tobytes()
        case Values():
            logprobs = np.array(message.logprobs, "<f4")
            return _HEAD.pack(_VALUES, *at, len(logprobs), 0) + logprobs.tobytes()


def is_detail(frame: bytes) -> bool:
    """Whether a binary frame is one of these."""
    return frame[:1] in (bytes([_DETAIL]), bytes([_QUESTION]), bytes([_VALUES]))


def decode(frame: bytes, vocab_size: int) -> tuple[int, DetailMessage]:
    """The generation and the message of a frame; raises `FrameError` for anything else."""
    if len(frame) < _HEAD.size:
        raise FrameError("a frame of details is cut short")
    kind, generation, position, checksum, first, second = _HEAD.unpack_from(frame)
    body = frame[_HEAD.size :]
    if kind == _DETAIL:
        return generation, _decode_detail(body, position, checksum, first, second, vocab_size)
    if first <= MAX_ASKED and len(body) == 4 * first and not second:
        if kind == _QUESTION:
            return generation, Question(position, checksum, _tokens(body, vocab_size))
        if kind == _VALUES:
            return generation, Values(position, checksum, _logprobs(body))
    raise FrameError(f"no frame of details: kind {kind}, {len(frame)} bytes")


def _decode_detail(
    body: bytes, position: int, checksum: int, rows: int, top: int, vocab_size: int
) -> CloudDetail:
    if not 0 < rows <= _MAX_ROWS or top > MAX_TOP:
        raise FrameError(f"details of {rows} rows and {top} tokens")
    if len(body) != _LOGPROB.size + 4 * (rows + 2 * top):
        raise FrameError("details do not have the size their head says")
    start = _LOGPROB.size
    shares = np.frombuffer(body, "<f4", rows, start)
    if not bool(((shares >= 0) & (shares <= 1 + _ROUNDING)).all()):
        raise FrameError("a share lies between 0 and 1")
    start += 4 * rows
    ids, logprobs = _tokens(body[start + 4 * top :], vocab_size), _logprobs(body[start:][: 4 * top])
    if len(set(ids)) < top:
        raise FrameError("details name a token twice")
    return CloudDetail(
        position,
        checksum,
        _logprobs(body[: _LOGPROB.size])[0],
        tuple(shares.tolist()),
        tuple(zip(ids, logprobs, strict=True)),
    )


def _tokens(body: bytes, vocab_size: int) -> tuple[int, ...]:
    tokens = np.frombuffer(body, "<i4")
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise FrameError(f"a token is outside the vocabulary of {vocab_size}")
    return tuple(tokens.tolist())


def _logprobs(body: bytes) -> tuple[float, ...]:
    values = np.frombuffer(body, "<f4")
    if not bool((np.isfinite(values) & (values <= _ROUNDING)).all()):
        raise FrameError("a log-probability is finite and not above 0")
    return tuple(np.minimum(values, 0.0).tolist())
