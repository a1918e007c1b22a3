"""Frames of either side, for tests that do not care whose they are."""

from __future__ import annotations

from dragon.errors import FrameError
from dragon.link import registry
from dragon.link.registry import Frame, Message
from dragon.sampling.role import Role


def decode(frame: Frame, vocab_size: int = 1 << 31) -> tuple[int, Message]:
    """The stream id and the message of a frame, whichever side may send it."""
    try:
        return registry.decode(frame, Role.DEVICE, vocab_size)
    except FrameError as error:
        if "does not send" not in error.message:
            raise
        return registry.decode(frame, Role.CLOUD, vocab_size)
