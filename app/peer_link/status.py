"""The status of the link to the cloud peer, why there is none, and peers that have no room.

Reasons are in the peer's own words if it gave any, else in the system's.
"""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from websockets.exceptions import InvalidStatus

from dragon.errors import LinkError
from dragon.link.address import PeerAddress
from dragon.localizable import Localizable, joined, localizable, one_line


@dataclass(frozen=True)
class PeerStatus:
    """The link as shown to people. `rtt_ms` is the smoothed round trip, None before the first."""

    state: Literal["connected", "connecting", "refused"]
    rtt_ms: float | None = None
    detail: str = ""

    @property
    def away(self) -> Localizable:
        """Why the cloud does not take part."""
        return Localizable(self.detail or "there is no connection to the cloud", "cloud.unreached")


PASSING = 500
"""The least HTTP status that is no refusal: a proxy sends it for a peer that has just gone."""

_CODES = {401: "link.key", 503: "link.ending"}
LOST = localizable("link.broken", "the connection was lost")


def denied(error: InvalidStatus) -> Localizable:
    """Why a peer does not admit the device."""
    status = error.response.status_code
    why = one_line((error.response.body or b"")[:500].decode(errors="replace")) or f"HTTP {status}"
    code = _CODES.get(status, "link.other")
    return Localizable(f"the peer refuses the link: {why}", code, {"why": why})


def untrusted(error: ssl.SSLCertVerificationError) -> Localizable:
    """Why a peer's certificate is not accepted."""
    why = str(error.strerror)
    return Localizable(why, "link.certificate", {"why": why})


def unreached(error: Exception) -> Localizable:
    """Why a peer could not be reached."""
    if (said := _said(error)) is not None:
        return said
    why = str(error) or "no answer"
    return Localizable(why, "link.unreached", {"why": why})


def lost(error: Exception) -> Localizable:
    """Why a connection was lost."""
    return _said(error) or (Localizable(str(error), LOST.code) if str(error) else LOST)


def together(failed: Mapping[PeerAddress, PeerStatus]) -> PeerStatus:
    """The link's status if it reaches none of its peers."""
    if len(failed) == 1:
        return next(iter(failed.values()))
    refused = all(status.state == "refused" for status in failed.values())
    details = [
        localizable("link.one", "{url}: {why}", url=peer.url, why=status.detail)
        for peer, status in failed.items()
    ]
    return PeerStatus("refused" if refused else "connecting", detail=joined(details, "; "))


def _said(error: Exception) -> Localizable | None:
    message = error.message if isinstance(error, LinkError) else None
    return message if isinstance(message, Localizable) else None


MOST_S = 60.0
"""Longer waits are cut to this: a key may be granted more meanwhile."""
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True)
class Refusal:
    """Why a peer refused an answer, and until when by its own account, on the monotonic clock.

    The device asks `again` by then, or sooner: no peer can put it off for a day.
    """

    reason: Localizable
    until: float
    again: float

    @classmethod
    def now(cls, reason: Localizable, retry_s: float) -> Refusal:
        now = time.monotonic()
        return cls(reason, now + retry_s, now + min(retry_s, MOST_S))

    @property
    def message(self) -> Localizable:
        """The reason, and the time that is left to wait."""
        left = max(1, math.ceil(self.until - time.monotonic()))
        if left < 2 * _MINUTE:
            time_left = localizable("time.seconds", "{count} s", count=left)
        elif left < 2 * _HOUR:
            time_left = localizable("time.minutes", "{count} min", count=math.ceil(left / _MINUTE))
        else:
            time_left = localizable("time.hours", "{count} h", count=math.ceil(left / _HOUR))
        again = "{reason}: try again in {time}"
        return localizable("peer.again", again, reason=self.reason, time=time_left)


class Refusals:
    """The peers' refusals that still apply."""

    def __init__(self) -> None:
        self._by_peer: dict[PeerAddress, Refusal] = {}

    def of(self, peer: PeerAddress) -> Refusal | None:
        """Why a peer is not asked for an answer now; None if it may be."""
        refusal = self._by_peer.get(peer)
        return refusal if refusal is not None and time.monotonic() < refusal.again else None

    def add(self, peer: PeerAddress, refusal: Refusal) -> None:
        self._by_peer[peer] = refusal

    def over(self, peer: PeerAddress) -> None:
        """Forget a refusal: an answer of this device has ended, so the peer may have room again."""
        self._by_peer.pop(peer, None)
