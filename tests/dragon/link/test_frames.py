"""A session's messages survive the link, whatever kind of frame carries them."""

from __future__ import annotations

import pytest

from dragon.link import control as messages
from dragon.link import frames
from dragon.protocol.messages import Candidate, Join, Resync, Score, SessionMessage


@pytest.mark.parametrize(
    "message",
    [
        Join(3, 2, (5, 6)),
        Resync(4),
        Candidate(1, (5, 6, 3), -123.45678901234567, -700),
        Score(2, -1e-300),
    ],
    ids=lambda message: type(message).__name__,
)
def test_control_frames(message: SessionMessage) -> None:
    control = messages.decode(str(frames.pack(9, message)))
    assert isinstance(control, messages.SessionControl)
    assert control.generation == 9
    assert frames.session_message(control) == message
