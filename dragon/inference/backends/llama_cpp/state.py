"""Keys and values of a row as llama.cpp writes them, and without what it writes around them.

What is kept on disk or comes over a link is numbers alone: llama.cpp's own reader, which trusts
what it is given, only ever sees what is made here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from dragon.errors import FrameError

_HALF = 1  # the type of numbers: half precision


@dataclass(frozen=True)
class State:
    """Keys, then values, of a row's first tokens: of each layer one token after the other, float16.

    `data` is as the link carries it, and as a file keeps it.
    """

    data: bytes

    def pack(self) -> bytes:
        """As the link carries it."""
        return self.data

    def dump(self) -> bytes:
        """As a file keeps it."""
        return self.data


@dataclass(frozen=True)
class Layout:
    """What llama.cpp writes around the numbers of a sequence whose tokens begin at position 0.

    `widths` are the bytes of a token in each part: keys of all layers, then values.
    """

    before: bytes
    streams: int
    between: bytes
    widths: tuple[int, ...]

    @classmethod
    def of(cls, state: bytes) -> Layout | None:
        """That of a state of sequence 0; None where llama.cpp writes states in another way."""
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
        """Bytes that keys and values of a token take."""
        return sum(self.widths)

    def unwrap(self, state: bytes) -> State:
        """The numbers in what llama.cpp has written."""
        place = 12
        while (tokens := int(struct.unpack_from("<I", state, place)[0])) == 0:
            place += 4  # of other sequences, where each has a cache of its own
        place += 4 + 12 * tokens + len(self.between)
        parts = []
        for width in self.widths:
            place += 12
            parts.append(state[place : place + tokens * width])
            place += tokens * width
        return State(b"".join(parts))

    def wrap(self, kept: State) -> bytes:
        """As llama.cpp reads it."""
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

    def tokens(self, kept: State) -> int:
        """How many tokens it is of."""
        return len(kept.data) // self.width

    def check(self, data: bytes) -> State:
        """A state that came from elsewhere; raises `FrameError` for what no model makes.

        A NaN would outlive its answer in the cache: even where it is masked, 0 times it is a NaN.
        """
        if len(data) % self.width or not np.isfinite(np.frombuffer(data, np.float16)).all():
            raise FrameError("document KV must be whole and finite")
        return State(data)
