"""The first byte of a binary message."""

from __future__ import annotations

from enum import IntEnum


class BinaryKind(IntEnum):
    """What a binary message holds: one frame, or a bundle of several."""

    DRAFT = 1
    TARGET = 2
    BULK = 3
    CORRECTION = 4
    BUNDLE = 5
