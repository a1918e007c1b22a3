"""Several binary frames in one WebSocket message: one engine turn's output of many answers.

Each message costs a header, a mask and a wake-up on either side, which is more than a frame costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from dragon.errors import FrameError
from dragon.link.bodies import BinaryKind

# No frame is added to a message of this many bytes: its first frame would arrive later.
_ENOUGH = 32 * 1024
MAX_BYTES = 128 * 1024
_BUNDLE = bytes([BinaryKind.BUNDLE])


class Waiting(Protocol):
    """A queue of frames, such as `asyncio.Queue`."""

    def empty(self) -> bool: ...
    def get_nowait(self) -> str | bytes: ...


def take(first: str | bytes, waiting: Waiting) -> list[str | bytes]:
    """The first frame and as many of those waiting behind it as fit in one message."""
    frames = [first]
    size = len(first)
    while size < _ENOUGH and not waiting.empty():
        frames.append(waiting.get_nowait())
        size += len(frames[-1])
    return frames


def messages(frames: Iterable[str | bytes]) -> Iterator[str | bytes]:
    """The messages that carry the frames, in order. Bulk data is long enough to go alone."""
    small: list[bytes] = []
    for frame in frames:
        if isinstance(frame, bytes) and frame[0] != BinaryKind.BULK:
            small.append(frame)
            continue
        yield from _joined(small)
        small = []
        yield frame
    yield from _joined(small)


def _joined(frames: Sequence[bytes]) -> Sequence[bytes]:
    if len(frames) < 2:
        return frames
    parts = (len(frame).to_bytes(4, "little") + frame for frame in frames)
    return [b"".join([_BUNDLE, *parts])]


def split(message: str | bytes) -> Sequence[str | bytes]:
    """The frames of a message; raises `FrameError` for a malformed bundle."""
    if isinstance(message, str) or message[:1] != _BUNDLE:
        return (message,)
    if len(message) > MAX_BYTES:
        raise FrameError(f"a bundle of frames has at most {MAX_BYTES} bytes, not {len(message)}")
    frames: list[bytes] = []
    start = 1
    while start < len(message):
        size = int.from_bytes(message[start : start + 4], "little")
        start += 4
        frame = message[start : start + size]
        if not 0 < size == len(frame):
            raise FrameError(f"a bundle of frames is cut short, or one is empty: {size} bytes")
        if frame[0] in (BinaryKind.BUNDLE, BinaryKind.BULK):
            raise FrameError("a bundle of frames holds no bundle and no bulk data")
        frames.append(frame)
        start += size
    if not frames:
        raise FrameError("a bundle of frames is empty")
    return frames
