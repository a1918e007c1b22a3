"""Bulk data as binary frames: document KV, full distributions.

The frames of a stream arrive in order; joined, they are the data that the sender made, one piece
after another. The receiver knows its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragon.errors import FrameError

MAX_PAYLOAD = 256 * 1024


@dataclass(frozen=True)
class Bulk:
    """A piece of the data, 1 to `MAX_PAYLOAD` bytes."""

    data: bytes


def pieces(data: bytes) -> Iterator[Bulk]:
    """The messages that carry `data`."""
    for start in range(0, len(data), MAX_PAYLOAD):
        yield Bulk(data[start : start + MAX_PAYLOAD])


def encode(message: Bulk) -> bytes:
    """The body of a frame."""
    return message.data


def decode(body: bytes) -> Bulk:
    """The message of a body; raises `FrameError` for one that is too long."""
    if len(body) > MAX_PAYLOAD:
        raise FrameError(f"a frame of bulk data has at most {MAX_PAYLOAD} bytes, not {len(body)}")
    return Bulk(body)
