"""A connection's share of the event loop's time."""

from __future__ import annotations

import pytest

from dragon.link.share import SHARE, LoopShare


def handled(share: LoopShare, seconds: float, frames: int) -> float:
    """How long a connection takes that always has a frame, each of `seconds`."""
    now = 0.0
    for _ in range(frames):
        now += seconds
        now += share.took(seconds, now) or 0.0
    return now


def test_who_sends_without_end_gets_his_share_and_no_more() -> None:
    frames, each = 100_000, 0.001
    assert handled(LoopShare(0.0), each, frames) == pytest.approx(frames * each / SHARE, rel=0.02)


def test_who_sends_little_never_waits() -> None:
    share, now = LoopShare(0.0), 0.0
    for _ in range(1000):
        now += 0.01
        assert share.took(0.001, now) in (None, 0.0)


def test_others_get_their_turn_every_few_milliseconds() -> None:
    share = LoopShare(0.0)
    turns = [share.took(0.001, 0.001 * count) for count in range(1, 13)]
    assert turns == [None] * 5 + [0.0] + [None] * 5 + [0.0]


def test_one_long_frame_is_paid_for() -> None:
    share = LoopShare(0.0)
    assert share.took(2.0, 2.0) == pytest.approx((2.0 - 0.5) / SHARE)
