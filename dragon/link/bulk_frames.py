"""Bulk data as binary frames, a small head and then raw bytes: document KV, full distributions.

The frames of a generation come in order and together are what their sender has made, one piece
after another. How much that is, the receiver knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dragon.errors import FrameError

KIND = 3  # 1 and 2 are drafts and targets
MAX_PAYLOAD = 256 * 1024
_HEAD = struct.Struct("<BI")


def encode(generation: int, data: bytes) -> Iterator[bytes]:
    """The frames that carry `data`."""
    head = _HEAD.pack(KIND, generation)
    for start in range(0, len(data), MAX_PAYLOAD):
        yield head + data[start : start + MAX_PAYLOAD]


def is_bulk(frame: bytes) -> bool:
    """Whether a binary frame is one of these."""
    return frame[:1] == bytes([KIND])


def decode(frame: bytes) -> tuple[int, bytes]:
    """The generation and the bytes of a frame; raises `FrameError` for another one."""
    if not is_bulk(frame) or not 0 < len(frame) - _HEAD.size <= MAX_PAYLOAD:
        raise FrameError(f"no frame of bulk data: {len(frame)} bytes")
    _, generation = _HEAD.unpack_from(frame)
    return generation, frame[_HEAD.size :]
