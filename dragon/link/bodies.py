"""Encodes and decodes the bodies of binary frames; parsing bounds every size.

A fixed little-endian header comes first, then whatever varies in length. Bulk data (document KV,
full distributions) is cut into pieces, whose frames arrive in order; joined, they are the data that
the sender made, one piece after another, and the receiver knows its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from dragon.errors import FrameError
from dragon.protocol.messages import MAX_WINDOW, Correction, Draft, Target
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.noise import Ids
from dragon.sampling.quantized import NUCLEUS_CAP, WireDistribution
from dragon.sampling.role import Role


class BinaryKind(IntEnum):
    """The first byte of a binary message: what it holds, one frame or a bundle of several."""

    DRAFT = 1
    TARGET = 2
    BULK = 3
    CORRECTION = 4
    BUNDLE = 5


_MAX_DECODE_US = (1 << 32) - 1
MAX_DRAFT_BYTES = 32 * 1024
# incarnation, epoch, position, committed, checksum, token, log h, decode time, tokens, shares
_DRAFT = struct.Struct("<HIIIIIiIHB")
MAX_ROWS = 64
_SHARE_STEPS = 255
DRAFT_HEAD_BYTES = _DRAFT.size


def encode_draft(message: Draft) -> bytes:
    """The body of a draft.

    After the header the rows' shares in 255ths, one byte each, and the nucleus: token ids as varint
    differences, then weights as varints.
    """
    wire = message.side.wire
    place = message.incarnation, message.epoch, message.position
    text = message.committed, message.checksum, message.token
    decode_us = min(message.decode_us, _MAX_DECODE_US)
    sizes = len(wire.ids), len(message.shares)
    head = _DRAFT.pack(*place, *text, message.side.log_h, decode_us, *sizes)
    shares = bytes(round(share * _SHARE_STEPS) for share in message.shares)
    values = np.concatenate([wire.ids, wire.weights])
    values[1 : len(wire.ids)] -= wire.ids[:-1]
    return head + shares + pack_varints(values)


def decode_draft(body: bytes) -> Draft:
    """Decode a draft; raises `FrameError` if it is malformed, `struct.error` if it is too short."""
    if len(body) > MAX_DRAFT_BYTES:
        raise FrameError(f"a draft has at most {MAX_DRAFT_BYTES} bytes, not {len(body)}")
    head = _DRAFT.unpack_from(body)
    incarnation, epoch, position, committed, checksum, token, log_h, decode_us, size, rows = head
    if not 0 < size <= NUCLEUS_CAP:
        raise FrameError(f"a nucleus holds 1 to {NUCLEUS_CAP} tokens, this one {size}")
    if abs(log_h) > LOG_H_LIMIT:
        raise FrameError("log h is out of range")
    if committed > position:
        raise FrameError("a draft cannot lie before its sender's committed text")
    if rows > MAX_ROWS:
        raise FrameError(f"a side has at most {MAX_ROWS} rows, this one {rows}")
    start = DRAFT_HEAD_BYTES + rows
    shares = tuple(share / _SHARE_STEPS for share in body[DRAFT_HEAD_BYTES:start])
    values = unpack_varints(body, start, 2 * size)
    wire = WireDistribution.of(np.cumsum(values[:size]), values[size:])
    side = Side(wire, log_h)
    return Draft(incarnation, epoch, position, committed, checksum, token, decode_us, side, shares)


def largest_token_of_draft(message: Draft) -> int:
    return max(message.token, int(message.side.wire.ids[-1]))


_CORRECTION = struct.Struct("<HIIIB")  # incarnation, position, checksum, decode time, tokens


def encode_correction(message: Correction) -> bytes:
    """The body of a correction: after the header its token ids as varints."""
    place, tokens = (message.incarnation, message.position, message.checksum), message.tokens
    head = _CORRECTION.pack(*place, min(message.decode_us, _MAX_DECODE_US), len(tokens))
    return head + pack_varints(np.array(tokens, np.int64)) if tokens else head


def decode_correction(body: bytes) -> Correction:
    """Decode a correction; raises `FrameError` or `struct.error` as `decode_draft` does."""
    incarnation, position, checksum, decode_us, count = _CORRECTION.unpack_from(body)
    if count > MAX_WINDOW:
        raise FrameError(f"a correction has at most {MAX_WINDOW} tokens, not {count}")
    if (len(body) > _CORRECTION.size) is not (count > 0):
        raise FrameError("a correction does not have the size its head says")
    tokens = unpack_varints(body, _CORRECTION.size, count).tolist() if count else []
    return Correction(incarnation, position, checksum, decode_us, tuple(tokens))


_TARGET = struct.Struct("<HIIB")  # incarnation, position, token, flags
_DEVICE_KEPT, _CLOUD_KEPT, _CLOUD_NEXT = 1, 2, 4


def encode_target(message: Target) -> bytes:
    """The body of a target: the token that the aggregating side chose, and its verdicts."""
    flags = _DEVICE_KEPT * message.device_kept | _CLOUD_KEPT * message.cloud_kept
    flags |= _CLOUD_NEXT * (message.next is Role.CLOUD)
    return _TARGET.pack(message.incarnation, message.position, message.token, flags)


def decode_target(body: bytes) -> Target:
    """Decode a target; raises `FrameError` if it is malformed."""
    if len(body) != _TARGET.size:
        raise FrameError(f"a target has {_TARGET.size} bytes, not {len(body)}")
    incarnation, position, token, flags = _TARGET.unpack(body)
    if flags > (_DEVICE_KEPT | _CLOUD_KEPT | _CLOUD_NEXT):
        raise FrameError(f"unknown flags of a target: {flags}")
    kept = (bool(flags & _DEVICE_KEPT), bool(flags & _CLOUD_KEPT))
    chosen = Role.CLOUD if flags & _CLOUD_NEXT else Role.DEVICE
    return Target(incarnation, position, token, *kept, chosen)


MAX_PAYLOAD = 256 * 1024  # bytes of a piece


@dataclass(frozen=True)
class Bulk:
    """A piece of the data, 1 to `MAX_PAYLOAD` bytes."""

    data: bytes


def pieces(data: bytes) -> Iterator[Bulk]:
    for start in range(0, len(data), MAX_PAYLOAD):
        yield Bulk(data[start : start + MAX_PAYLOAD])


def decode_bulk(body: bytes) -> Bulk:
    """Decode a piece of bulk data; raises `FrameError` if it is too long."""
    if len(body) > MAX_PAYLOAD:
        raise FrameError(f"a frame of bulk data has at most {MAX_PAYLOAD} bytes, not {len(body)}")
    return Bulk(body)


MAX_VARINT_BYTES = 5


def pack_varints(values: Ids) -> bytes:
    """LEB128 varints: seven bits per byte, lowest first; the eighth bit means that more follow."""
    # Each value's word has room for all bytes of its varint.
    kind = np.dtype("<u4" if values.max() < 1 << 28 else "<u8")
    values = values.astype(kind)
    words = values & 0x7F
    for byte in range(1, MAX_VARINT_BYTES):
        longer = values >= 1 << 7 * byte
        if not longer.any():
            break
        words |= (values >> 7 * byte & 0x7F) << 8 * byte
        words |= longer.astype(kind) << 8 * byte - 1
    spread: NDArray[np.uint8] = words.view(np.uint8)
    used = spread != 0  # of the bytes after the first, the last of a varint is never 0
    used[:: kind.itemsize] = True
    return bytes(spread[used])


def unpack_varints(body: bytes, start: int, count: int) -> Ids:
    """Decode exactly `count` varints that fill `body` from `start` on: int64 [count].

    Raises `FrameError` for anything else.
    """
    if start > len(body):
        raise FrameError("a frame is cut short")
    raw: NDArray[np.uint8] = np.frombuffer(body, dtype=np.uint8, offset=start)
    ends = np.flatnonzero(raw < 0x80)
    if len(ends) != count or ends[-1] != len(raw) - 1:
        raise FrameError("a frame does not have the size its head says")
    starts = np.concatenate([[0], ends[:-1] + 1])
    extra = ends - starts
    longest = int(extra.max())
    if longest >= MAX_VARINT_BYTES:
        raise FrameError("a number of a frame is too long")
    values: Ids = (raw[starts] & 0x7F).astype(np.int64)
    for byte in range(1, longest + 1):
        long = np.flatnonzero(extra >= byte)
        values[long] |= (raw[starts[long] + byte] & 0x7F).astype(np.int64) << 7 * byte
    return values
