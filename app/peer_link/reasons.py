"""Why there is no link to a peer: in its own words where it has said so, else the system's."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from websockets.exceptions import InvalidStatus

from app.peer_link.status import PeerStatus
from dragon.errors import LinkError
from dragon.link.address import PeerAddress
from dragon.localizable import Localizable, joined, localizable

PASSING = 500
"""The least status of a reply that is no refusal: a proxy says so of a peer that has just gone."""

_CODES = {401: "link.key", 503: "link.ending"}
LOST = localizable("link.broken", "the connection was lost")


def denied(error: InvalidStatus) -> Localizable:
    """Of one that does not let the device in."""
    status = error.response.status_code
    why = (error.response.body or b"")[:500].decode(errors="replace") or f"HTTP {status}"
    code = _CODES.get(status, "link.other")
    return Localizable(f"the peer refuses the link: {why}", code, {"why": why})


def untrusted(error: ssl.SSLCertVerificationError) -> Localizable:
    """Of one whose certificate is wrong."""
    why = str(error.strerror)
    return Localizable(why, "link.certificate", {"why": why})


def unreached(error: Exception) -> Localizable:
    """Of one that could not be connected to."""
    if (said := _said(error)) is not None:
        return said
    why = str(error) or "no answer"
    return Localizable(why, "link.unreached", {"why": why})


def lost(error: Exception) -> Localizable:
    """Of one that was connected."""
    return _said(error) or (Localizable(str(error), LOST.code) if str(error) else LOST)


def together(failed: Mapping[PeerAddress, PeerStatus]) -> PeerStatus:
    """How the link stands, of several peers none of which can be reached."""
    if len(failed) == 1:
        return next(iter(failed.values()))
    refused = all(status.state == "refused" for status in failed.values())
    details = [
        localizable("link.one", "{url}: {why}", url=peer.url, why=status.detail)
        for peer, status in failed.items()
    ]
    return PeerStatus("refused" if refused else "connecting", detail=joined(details, "; "))


def _said(error: Exception) -> Localizable | None:
    """What the peer has said itself."""
    message = error.message if isinstance(error, LinkError) else None
    return message if isinstance(message, Localizable) else None
