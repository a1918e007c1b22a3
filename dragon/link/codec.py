"""Bytes of the hot path: drafts and targets as binary frames, every size bounded while parsing.

A frame is a fixed little-endian head and, for a draft, its nucleus: token ids as varint steps from
one to the next, then weights as varints.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragon.errors import FrameError
from dragon.protocol.messages import Draft, Target
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.noise import Ids
from dragon.sampling.quantized import NUCLEUS_CAP, WireDistribution
from dragon.sampling.role import Role

MAX_FRAME_BYTES = 32 * 1024
_DRAFT = 1
_TARGET = 2
_DRAFT_HEAD = struct.Struct("<BIHIIIIIiIH")
DRAFT_HEAD_BYTES = _DRAFT_HEAD.size
# kind, generation, incarnation, position, token, flags
_TARGET_HEAD = struct.Struct("<BIHIIB")
_DEVICE_KEPT, _CLOUD_KEPT, _CLOUD_NEXT = 1, 2, 4
_MAX_DECODE_US = (1 << 32) - 1
_VARINT_BYTES = 5


class DraftHead(NamedTuple):
    """What stands before a draft's nucleus."""

    kind: int
    generation: int
    incarnation: int
    epoch: int
    position: int
    committed: int
    checksum: int
    token: int
    log_h: int
    decode_us: int
    size: int


def draft_head(frame: bytes) -> DraftHead | None:
    """The head of a draft's frame that was encoded here; None of any other frame."""
    return DraftHead._make(_DRAFT_HEAD.unpack_from(frame)) if frame[0] == _DRAFT else None


def encode(generation: int, message: Draft | Target) -> bytes:
    """The binary frame of a message that belongs to a generation."""
    if isinstance(message, Target):
        flags = (
            _DEVICE_KEPT * message.device_kept
            | _CLOUD_KEPT * message.cloud_kept
            | _CLOUD_NEXT * (message.next is Role.CLOUD)
        )
        return _TARGET_HEAD.pack(
            _TARGET, generation, message.incarnation, message.position, message.token, flags
        )
    wire = message.side.wire
    head = _DRAFT_HEAD.pack(
        _DRAFT,
        generation,
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


def decode(frame: bytes, vocab_size: int) -> tuple[int, Draft | Target]:
    """The generation and the message of a binary frame; raises `FrameError` for anything else."""
    if not frame or len(frame) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame has 1 to {MAX_FRAME_BYTES} bytes, this one {len(frame)}")
    try:
        if frame[0] == _TARGET and len(frame) == _TARGET_HEAD.size:
            return _decode_target(frame, vocab_size)
        if frame[0] == _DRAFT:
            return _decode_draft(frame, vocab_size)
    except struct.error as error:
        raise FrameError(f"a frame is cut short: {error}") from error
    raise FrameError(f"unknown kind of frame, or a wrong length: {frame[0]}, {len(frame)} bytes")


def _decode_target(frame: bytes, vocab_size: int) -> tuple[int, Target]:
    _, generation, incarnation, position, token, flags = _TARGET_HEAD.unpack(frame)
    if token >= vocab_size:
        raise FrameError(f"token {token} is outside the vocabulary of {vocab_size}")
    if flags > (_DEVICE_KEPT | _CLOUD_KEPT | _CLOUD_NEXT):
        raise FrameError(f"unknown flags of a target: {flags}")
    kept = (bool(flags & _DEVICE_KEPT), bool(flags & _CLOUD_KEPT))
    chosen = Role.CLOUD if flags & _CLOUD_NEXT else Role.DEVICE
    return generation, Target(incarnation, position, token, *kept, chosen)


def _decode_draft(frame: bytes, vocab_size: int) -> tuple[int, Draft]:
    head = DraftHead._make(_DRAFT_HEAD.unpack_from(frame))
    if not 0 < head.size <= NUCLEUS_CAP:
        raise FrameError(f"a nucleus holds 1 to {NUCLEUS_CAP} tokens, this one {head.size}")
    if abs(head.log_h) > LOG_H_LIMIT:
        raise FrameError("log h is out of range")
    if head.committed > head.position:
        raise FrameError("a draft cannot lie before its sender's committed text")
    values = _unpack(frame, DRAFT_HEAD_BYTES, 2 * head.size)
    ids = np.cumsum(values[: head.size])
    if ids[-1] >= vocab_size or head.token >= vocab_size:
        raise FrameError(f"a token is outside the vocabulary of {vocab_size}")
    side = Side(WireDistribution.of(ids, values[head.size :]), head.log_h)
    return head.generation, Draft(
        head.incarnation,
        head.epoch,
        head.position,
        head.committed,
        head.checksum,
        head.token,
        head.decode_us,
        side,
    )


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
