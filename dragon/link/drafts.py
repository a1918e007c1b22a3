"""Drafts as binary frames, every size bounded while parsing.

A body is a fixed little-endian header, the rows' shares in 255ths, one byte each, and the draft's
nucleus: token ids as varint differences, then weights as varints.
"""

from __future__ import annotations

import struct

import numpy as np

from dragon.errors import FrameError
from dragon.link import varints
from dragon.protocol.messages import Draft
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.quantized import NUCLEUS_CAP, WireDistribution

MAX_BODY_BYTES = 32 * 1024
# incarnation, epoch, position, committed, checksum, token, log h, decode time, tokens, shares
_HEAD = struct.Struct("<HIIIIIiIHB")
MAX_ROWS = 64
_SHARE_STEPS = 255
HEAD_BYTES = _HEAD.size
_MAX_DECODE_US = (1 << 32) - 1


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
        len(message.shares),
    )
    shares = bytes(round(share * _SHARE_STEPS) for share in message.shares)
    values = np.concatenate([wire.ids, wire.weights])
    values[1 : len(wire.ids)] -= wire.ids[:-1]
    return head + shares + varints.pack(values)


def decode(body: bytes) -> Draft:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    if len(body) > MAX_BODY_BYTES:
        raise FrameError(f"a draft has at most {MAX_BODY_BYTES} bytes, not {len(body)}")
    head = _HEAD.unpack_from(body)
    incarnation, epoch, position, committed, checksum, token, log_h, decode_us, size, rows = head
    if not 0 < size <= NUCLEUS_CAP:
        raise FrameError(f"a nucleus holds 1 to {NUCLEUS_CAP} tokens, this one {size}")
    if abs(log_h) > LOG_H_LIMIT:
        raise FrameError("log h is out of range")
    if committed > position:
        raise FrameError("a draft cannot lie before its sender's committed text")
    if rows > MAX_ROWS:
        raise FrameError(f"a side has at most {MAX_ROWS} rows, this one {rows}")
    start = HEAD_BYTES + rows
    shares = tuple(share / _SHARE_STEPS for share in body[HEAD_BYTES:start])
    values = varints.unpack(body, start, 2 * size)
    wire = WireDistribution.of(np.cumsum(values[:size]), values[size:])
    side = Side(wire, log_h)
    return Draft(incarnation, epoch, position, committed, checksum, token, decode_us, side, shares)


def largest_token(message: Draft) -> int:
    """The largest token id in a draft."""
    return max(message.token, int(message.side.wire.ids[-1]))
