"""Details of tokens as binary frames: fixed little-endian fields, int32 and float32 arrays.

They follow the text at leisure. Those of a text that the receiver does not have are recognised by
their checksum, so they need no incarnation.
"""

from __future__ import annotations

import struct

import numpy as np

from dragon.errors import FrameError
from dragon.inference.logprobs import MAX_ASKED, MAX_TOP, CloudDetail, Question, Values

_MAX_ROWS = 64
_DETAIL = struct.Struct("<IIHHf")  # position, checksum, rows, likeliest tokens, log-probability
_LIST = struct.Struct("<IIH")  # position, checksum, length
# A log-probability may be above 0 by its rounding.
_ROUNDING = 1e-3


def encode_detail(message: CloudDetail) -> bytes:
    """The body of a frame."""
    ids, values = zip(*message.top, strict=True) if message.top else ((), ())
    rows = len(message.shares)
    return (
        _DETAIL.pack(message.position, message.checksum, rows, len(ids), message.logprob)
        + np.array([*message.shares, *values], "<f4").tobytes()
        + np.array(ids, "<i4").tobytes()
    )


def decode_detail(body: bytes) -> CloudDetail:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    position, checksum, rows, top, logprob = _DETAIL.unpack_from(body)
    if not 0 < rows <= _MAX_ROWS or top > MAX_TOP:
        raise FrameError(f"details of {rows} rows and {top} tokens")
    if len(body) != _DETAIL.size + 4 * (rows + 2 * top):
        raise FrameError("details do not have the size their head says")
    floats = np.frombuffer(body, "<f4", rows + top, _DETAIL.size)
    shares = floats[:rows]
    if not bool(((shares >= 0) & (shares <= 1 + _ROUNDING)).all()):
        raise FrameError("a share lies between 0 and 1")
    ids = _tokens(body[_DETAIL.size + 4 * (rows + top) :])
    if len(set(ids)) < top:
        raise FrameError("details name a token twice")
    (own,) = _logprobs(np.array([logprob], "<f4"))
    likeliest = tuple(zip(ids, _logprobs(floats[rows:]), strict=True))
    return CloudDetail(position, checksum, own, tuple(shares.tolist()), likeliest)


def encode_question(message: Question) -> bytes:
    """The body of a frame."""
    tokens = np.array(message.tokens, "<i4")
    return _LIST.pack(message.position, message.checksum, len(tokens)) + tokens.tobytes()


def decode_question(body: bytes) -> Question:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    position, checksum, values = _list(body)
    return Question(position, checksum, _tokens(values))


def encode_values(message: Values) -> bytes:
    """The body of a frame."""
    logprobs = np.array(message.logprobs, "<f4")
    return _LIST.pack(message.position, message.checksum, len(logprobs)) + logprobs.tobytes()


def decode_values(body: bytes) -> Values:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    position, checksum, values = _list(body)
    return Values(position, checksum, _logprobs(np.frombuffer(values, "<f4")))


def largest_token(message: CloudDetail) -> int:
    """The largest token id among the likeliest."""
    return max((token for token, _ in message.top), default=0)


def _list(body: bytes) -> tuple[int, int, bytes]:
    position, checksum, length = _LIST.unpack_from(body)
    values = body[_LIST.size :]
    if length > MAX_ASKED or len(values) != 4 * length:
        raise FrameError(f"a list of {length} values has {len(values)} bytes")
    return position, checksum, values


def _tokens(body: bytes) -> tuple[int, ...]:
    tokens = np.frombuffer(body, "<i4")
    if len(tokens) and int(tokens.min()) < 0:
        raise FrameError("a token id is not negative")
    return tuple(tokens.tolist())


def _logprobs(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> tuple[float, ...]:
    if not bool((np.isfinite(values) & (values <= _ROUNDING)).all()):
        raise FrameError("a log-probability is finite and not above 0")
    return tuple(np.minimum(values, 0.0).tolist())
