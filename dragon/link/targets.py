"""Targets as binary frames: the token that the aggregating side chose, and its verdicts."""

from __future__ import annotations

import struct

from dragon.errors import FrameError
from dragon.protocol.messages import Target
from dragon.sampling.role import Role

_BODY = struct.Struct("<HIIB")  # incarnation, position, token, flags
_DEVICE_KEPT, _CLOUD_KEPT, _CLOUD_NEXT = 1, 2, 4


def encode(message: Target) -> bytes:
    """The body of a frame."""
    flags = (
        _DEVICE_KEPT * message.device_kept
        | _CLOUD_KEPT * message.cloud_kept
        | _CLOUD_NEXT * (message.next is Role.CLOUD)
    )
    return _BODY.pack(message.incarnation, message.position, message.token, flags)


def decode(body: bytes) -> Target:
    """The message of a body; raises `FrameError` for anything else."""
    if len(body) != _BODY.size:
        raise FrameError(f"a target has {_BODY.size} bytes, not {len(body)}")
    incarnation, position, token, flags = _BODY.unpack(body)
    if flags > (_DEVICE_KEPT | _CLOUD_KEPT | _CLOUD_NEXT):
        raise FrameError(f"unknown flags of a target: {flags}")
    kept = (bool(flags & _DEVICE_KEPT), bool(flags & _CLOUD_KEPT))
    chosen = Role.CLOUD if flags & _CLOUD_NEXT else Role.DEVICE
    return Target(incarnation, position, token, *kept, chosen)
