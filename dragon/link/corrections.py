"""Corrections as binary frames: a fixed little-endian header, then token ids as varints."""

from __future__ import annotations

import struct

import numpy as np

from dragon.errors import FrameError
from dragon.link import varints
from dragon.protocol.messages import MAX_WINDOW, Correction

_HEAD = struct.Struct("<HIIIB")  # incarnation, position, checksum, decode time, tokens
_MAX_DECODE_US = (1 << 32) - 1


def encode(message: Correction) -> bytes:
    """The body of a frame."""
    head = _HEAD.pack(
        message.incarnation,
        message.position,
        message.checksum,
        min(message.decode_us, _MAX_DECODE_US),
        len(message.tokens),
    )
    return head + varints.pack(np.array(message.tokens, np.int64)) if message.tokens else head


def decode(body: bytes) -> Correction:
    """The message of a body; raises `FrameError` for anything else, `struct.error` if too short."""
    incarnation, position, checksum, decode_us, count = _HEAD.unpack_from(body)
    if count > MAX_WINDOW:
        raise FrameError(f"a correction has at most {MAX_WINDOW} tokens, not {count}")
    if (len(body) > _HEAD.size) is not (count > 0):
        raise FrameError("a correction does not have the size its head says")
    tokens = varints.unpack(body, _HEAD.size, count).tolist() if count else []
    return Correction(incarnation, position, checksum, decode_us, tuple(tokens))
