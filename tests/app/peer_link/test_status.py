"""Why there is no link: what a peer says of itself is not covered by what the system says."""

from __future__ import annotations

import ssl

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from app.peer_link.status import PeerStatus, denied, lost, together, unreached, untrusted
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
    assert lost(LinkError(SAID)) is unreached(LinkError(SAID)) is SAID
    for error in (OSError("no route"), FrameError("no hello"), TimeoutError()):
        assert lost(error).code == "link.broken"
        assert unreached(error).code == "link.unreached"
    assert lost(OSError("no route")) == "no route"
    assert lost(TimeoutError()) == "the connection was lost"
    assert unreached(TimeoutError()).values == {"why": "no answer"}


def test_a_certificate_is_blamed_in_the_words_of_its_check() -> None:
    error = ssl.SSLCertVerificationError(1, "it has expired")
    assert untrusted(error).values == {"why": "it has expired"}


def test_several_peers_are_refused_only_if_each_refuses() -> None:
    one, other = (PeerAddress(f"wss://{name}.example/v1/link") for name in ("one", "other"))
    refused, away = PeerStatus("refused", detail=SAID), PeerStatus("connecting", detail=SAID)
    assert together({one: refused}) is refused
    assert together({one: refused, other: refused}).state == "refused"
    found = together({one: refused, other: away})
    assert found.state == "connecting"
    assert found.detail == f"{one.url}: {SAID}; {other.url}: {SAID}"
