"""Why there is no link: what a peer says of itself is not covered by what the system says.

And what peers have said of when they have room: kept for as long as that holds, and told.
"""

from __future__ import annotations

import ssl
import time

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from app.peer_link.status import MOST_S, PeerStatus, Refusal, denied, failed, lost, together
from dragon.errors import FrameError, LinkError
from dragon.link.address import PeerAddress
from dragon.localizable import localizable

SAID = localizable("link.revoked", "the key was revoked")


@pytest.mark.parametrize(
    ("status", "body", "said", "code"),
    [
        (401, b"wrong key", "the peer refuses the link: wrong key", "link.key"),
        (503, b"about to end", "the peer refuses the link: about to end", "link.ending"),
        (404, b"", "the peer refuses the link: HTTP 404", "link.other"),
        (418, 2 * b"\xff", "the peer refuses the link: \ufffd\ufffd", "link.other"),
    ],
)
def test_a_refused_upgrade_is_worded_by_its_status(
    status: int, body: bytes, said: str, code: str
) -> None:
    why = denied(InvalidStatus(Response(status, "", Headers(), body)))
    assert (why, why.code) == (said, code)


def test_a_peer_is_quoted_where_it_has_said_why() -> None:
    assert lost(LinkError(SAID)) is failed(LinkError(SAID)).detail is SAID
    for error in (OSError("no route"), FrameError("no hello"), TimeoutError()):
        assert lost(error).code == "link.broken"
        assert failed(error).detail.code == "link.unreached"
    assert lost(OSError("no route")) == "no route"
    assert lost(TimeoutError()) == "the connection was lost"
    assert failed(TimeoutError()) == PeerStatus("connecting", detail="no answer")


def test_a_certificate_is_blamed_in_the_words_of_its_check() -> None:
    error = ssl.SSLCertVerificationError(1, "it has expired")
    assert failed(error) == PeerStatus("refused", detail="it has expired")


def test_several_peers_are_refused_only_if_each_refuses() -> None:
    one, other = (PeerAddress(f"wss://{name}.example/v1/link") for name in ("one", "other"))
    refused, away = PeerStatus("refused", detail=SAID), PeerStatus("connecting", detail=SAID)
    assert together({one: refused}) is refused
    assert together({one: refused, other: refused}).state == "refused"
    found = together({one: refused, other: away})
    assert found.state == "connecting"
    assert found.detail == f"{one.url}: {SAID}; {other.url}: {SAID}"


ROOM = localizable("peer.full", "no room")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1, "1 s"), (119, "119 s"), (120, "2 min"), (601, "11 min"), (7201, "3 h")],
)
def test_the_time_is_told(seconds: float, said: str) -> None:
    message = Refusal.now(ROOM, seconds).message
    assert message == f"no room: try again in {said}"
    assert (message.code, message.values["reason"]) == ("peer.again", ROOM)


def test_no_peer_keeps_a_device_from_asking_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key may have been given more."""
    soon, late, now = Refusal.now(ROOM, 10), Refusal.now(ROOM, 86_400), time.monotonic()
    assert late.message == "no room: try again in 24 h"  # as it says
    for seconds, stand in ((0, (True, True)), (11, (False, True)), (MOST_S + 1, (False, False))):
        monkeypatch.setattr(time, "monotonic", lambda later=now + seconds: later)
        assert (soon.stands, late.stands) == stand
