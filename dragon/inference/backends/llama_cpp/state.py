"""Keys and values of a row without what llama.cpp writes around them.

Only the numbers are kept on disk or cross a link: llama.cpp's own reader, which trusts its input,
sees nothing but what is built here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from dragon.errors import FrameError

_HALF = 1  # the type code of half precision


@dataclass(frozen=True)
class RowState:
    """Keys, then values, of a row's first tokens: per layer one token after another, float16.

    `data` is the form used on the link and in files.
    """

    data: bytes

    def pack(self) -> bytes:
        """Encoded for the link."""
        return self.data

    def dump(self) -> bytes:
        """Encoded for a file."""
        return self.data


@dataclass(frozen=True)
class StateLayout:
    """What llama.cpp writes around the numbers of a sequence whose tokens begin at position 0.

    `widths` are the bytes of a token in each part: keys of all layers, then values.
    """

    before: bytes
    streams: int
    between: bytes
    widths: tuple[int, ...]

    @classmethod
    def of(cls, state: bytes) -> StateLayout | None:
        """The layout of a state of sequence 0; None if llama.cpp uses another format."""
        try:
            streams, tokens = struct.unpack_from("<2I", state, 8)
            place = 16 + 12 * tokens
            between = state[place : place + 16]
            place += 16
            widths = []
            for _ in range(2 * struct.unpack_from("<4I", between)[1]):
                kind, width = struct.unpack_from("<iQ", state, place)
                if kind != _HALF:
                    return None
                widths.append(width)
                place += 12 + tokens * width
        except struct.error:
            return None
        found = cls(state[:8], streams, between, tuple(widths))
        return found if found.wrap(found.unwrap(state)) == state else None

    @property
    def width(self) -> int:
        """Bytes of a token's keys and values."""
        return sum(self.widths)

    def unwrap(self, state: bytes) -> RowState:
        """The numbers in a state that llama.cpp wrote."""
        place = 12
        while (tokens := int(struct.unpack_from("<I", state, place)[0])) == 0:
            place += 4  # other sequences, if each has its own cache
        place += 4 + 12 * tokens + len(self.between)
        parts = []
        for width in self.widths:
            place += 12
            parts.append(state[place : place + tokens * width])
            place += tokens * width
        return RowState(b"".join(parts))

    def wrap(self, kept: RowState) -> bytes:
        """The state for llama.cpp to read."""
        tokens = self.tokens(kept)
        parts = [self.before, struct.pack("<2I", self.streams, tokens)]
        parts += [struct.pack("<3I", position, 1, 0) for position in range(tokens)]
        parts.append(self.between)
        place = 0
        for width in self.widths:
            parts.append(struct.pack("<iQ", _HALF, width))
            parts.append(kept.data[place : place + tokens * width])
            place += tokens * width
        parts.append(bytes(4 * (self.streams - 1)))
        return b"".join(parts)

    def tokens(self, kept: RowState) -> int:
        """The number of tokens in a state."""
        return len(kept.data) // self.width

    def check(self, data: bytes) -> RowState:
        """Validate a state from elsewhere; raises `FrameError` for what no model computes.

        A NaN would outlive its answer in the cache: even if it is masked, 0 times NaN is NaN.
        """
        if len(data) % self.width or not np.isfinite(np.frombuffer(data, np.float16)).all():
            raise FrameError("document KV must be whole and finite")
        return RowState(data)
