"""Numbers as LEB128 varints, many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dragon.errors import FrameError
from dragon.sampling.noise import Ids

MAX_BYTES = 5


def pack(values: Ids) -> bytes:
    """LEB128 varints: seven bits per byte, lowest first; the eighth bit means that more follow."""
    # Each value's word has room for all bytes of its varint.
    kind = np.dtype("<u4" if values.max() < 1 << 28 else "<u8")
    values = values.astype(kind)
    words = values & 0x7F
    for byte in range(1, MAX_BYTES):
        longer = values >= 1 << 7 * byte
        if not longer.any():
            break
        words |= (values >> 7 * byte & 0x7F) << 8 * byte
        words |= longer.astype(kind) << 8 * byte - 1
    spread: NDArray[np.uint8] = words.view(np.uint8)
    used = spread != 0  # of the bytes after the first, the last of a varint is never 0
    used[:: kind.itemsize] = True
    return bytes(spread[used])


def unpack(body: bytes, start: int, count: int) -> Ids:
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
    if longest >= MAX_BYTES:
        raise FrameError("a number of a frame is too long")
    values: Ids = (raw[starts] & 0x7F).astype(np.int64)
    for byte in range(1, longest + 1):
        long = np.flatnonzero(extra >= byte)
        values[long] |= (raw[starts[long] + byte] & 0x7F).astype(np.int64) << 7 * byte
    return values
