"""What peers have said of when they have room: kept for as long as that holds, and told."""

from __future__ import annotations

import time

import pytest

from app.peer_link.status import MOST_S, Refusal, Refusals
from dragon.link.address import PeerAddress
from dragon.localizable import localizable

ONE, OTHER = PeerAddress("wss://one.example/v1/link"), PeerAddress("wss://other.example/v1/link")
ROOM = localizable("peer.full", "no room")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1, "1 s"), (119, "119 s"), (120, "2 min"), (601, "11 min"), (7201, "3 h")],
)
def test_the_time_is_told(seconds: float, said: str) -> None:
    message = Refusal.now(ROOM, seconds).message
    assert message == f"no room: try again in {said}"
    assert (message.code, message.values["reason"]) == ("peer.again", ROOM)


def test_each_peer_is_left_alone_for_as_long_as_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals, now = Refusals(), time.monotonic()
    refusals.add(ONE, one := Refusal.now(ROOM, 10))
    refusals.add(OTHER, other := Refusal.now(localizable("peer.tokens", "no tokens"), 40_000))
    assert (refusals.of(ONE), refusals.of(OTHER)) == (one, other)
    monkeypatch.setattr(time, "monotonic", lambda: now + 11)
    assert (refusals.of(ONE), refusals.of(OTHER)) == (None, other)
    # A key may have been given more.
    monkeypatch.setattr(time, "monotonic", lambda: now + MOST_S + 1)
    assert refusals.of(OTHER) is None


def test_a_peer_that_is_done_with_an_answer_may_have_room() -> None:
    refusals = Refusals()
    refusals.add(ONE, Refusal.now(ROOM, 10))
    refusals.over(OTHER)
    assert refusals.of(ONE) is not None
    refusals.over(ONE)
    assert refusals.of(ONE) is None


def test_no_peer_keeps_a_device_from_asking_for_a_day() -> None:
    now = time.monotonic()
    refusal = Refusal.now(ROOM, 86_400)
    assert now + MOST_S <= refusal.again <= time.monotonic() + MOST_S
    assert refusal.message == "no room: try again in 24 h"  # as it says
    assert Refusal.now(ROOM, 5).again < now + 6
