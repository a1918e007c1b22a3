"""Drafts as binary frames, every size bounded while parsing.

A body is a fixed little-endian head and the draft's nucleus: token ids as varint steps from one to
the next, then weights as varints.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from dragon.errors import FrameError
from dragon.protocol.messages import Draft
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.noise import Ids
from dragon.sampling.quantized import NUCLEUS_CAP, WireDistribution

MAX_BODY_BYTES = 32 * 1024
# incarnation, epoch, position, committed, checksum, token, log h, decode time, tokens
_HEAD = struct.Struct("<HIIIIIiIH")
HEAD_BYTES = _HEAD.size
_MAX_DECODE_US = (1 << 32) - 1
_VARINT_BYTES = 5


def encode(message: Draft) -> bytes:
    """The body of a frame."""
    wire = message.side.wire
    head = _HEAD.pack(
        message.incarnation,
        message.epoch,
        message.position,
        message.committed,
        message.checksum,
        message.token,
        message.side.log_h,
        min(message.decode_us, _MAX_DECODE_US),
        len(wire.ids),
    )
    values = np.concatenate([wire.ids, wire.weights])
    values[1 : len(wire.ids)] -= wire.ids[:-1]
    return head + _pack(values)


def decode(body: bytes) -> Draft:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    if len(body) > MAX_BODY_BYTES:
        raise FrameError(f"a draft has at most {MAX_BODY_BYTES} bytes, not {len(body)}")
    head = _HEAD.unpack_from(body)
    incarnation, epoch, position, committed, checksum, token, log_h, decode_us, size = head
    if not 0 < size <= NUCLEUS_CAP:
        raise FrameError(f"a nucleus holds 1 to {NUCLEUS_CAP} tokens, this one {size}")
    if abs(log_h) > LOG_H_LIMIT:
        raise FrameError("log h is out of range")
    if committed > position:
        raise FrameError("a draft cannot lie before its sender's committed text")
    values = _unpack(body, HEAD_BYTES, 2 * size)
    wire = WireDistribution.of(np.cumsum(values[:size]), values[size:])
    side = Side(wire, log_h)
    return Draft(incarnation, epoch, position, committed, checksum, token, decode_us, side)


def largest_token(message: Draft) -> int:
    """The largest token id in a draft."""
    return max(message.token, int(message.side.wire.ids[-1]))


def _pack(values: Ids) -> bytes:
    """LEB128 varints: seven bits a byte, lowest first, the eighth says that more follow."""
    # A word has room for each byte of its varint.
    kind = np.dtype("<u4" if values.max() < 1 << 28 else "<u8")
    values = values.astype(kind)
    words = values & 0x7F
    for byte in range(1, _VARINT_BYTES):
        longer = values >= 1 << 7 * byte
        if not longer.any():
            break
        words |= (values >> 7 * byte & 0x7F) << 8 * byte
        words |= longer.astype(kind) << 8 * byte - 1
    spread: NDArray[np.uint8] = words.view(np.uint8)
    used = spread != 0  # of the bytes behind the first: the last one of a varint is never 0
    used[:: kind.itemsize] = True
    return bytes(spread[used])


def _unpack(frame: bytes, start: int, count: int) -> Ids:
    """Exactly `count` varints that fill the rest of the frame, int64 [count]."""
    raw: NDArray[np.uint8] = np.frombuffer(frame, dtype=np.uint8, offset=start)
    ends = np.flatnonzero(raw < 0x80)
    if len(ends) != count or ends[-1] != len(raw) - 1:
        raise FrameError("a nucleus does not have the size its head says")
    starts = np.concatenate([[0], ends[:-1] + 1])
    extra = ends - starts
    longest = int(extra.max())
    if longest >= _VARINT_BYTES:
        raise FrameError("a number of a nucleus is too long")
    values: Ids = (raw[starts] & 0x7F).astype(np.int64)
    for byte in range(1, longest + 1):
        long = np.flatnonzero(extra >= byte)
        values[long] |= (raw[starts[long] + byte] & 0x7F).astype(np.int64) << 7 * byte
    return values
