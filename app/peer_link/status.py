"""The status of the link to the cloud peer: why there is none, and why a peer has no room.

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

from dragon.errors import HandshakeError, LinkError
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


_PASSING = 500
"""The least HTTP status that is no refusal: a proxy sends it for a peer that has just gone."""

_CODES = {401: "link.key", 503: "link.ending"}
LOST = localizable("link.broken", "the connection was lost")


def denied(error: InvalidStatus) -> Localizable:
    """Why a peer does not admit the device."""
    status = error.response.status_code
    why = one_line((error.response.body or b"")[:500].decode(errors="replace")) or f"HTTP {status}"
    code = _CODES.get(status, "link.other")
    return Localizable(f"the peer refuses the link: {why}", code, {"why": why})


def failed(error: Exception) -> PeerStatus:
    """The status of a peer that could not be connected to."""
    match error:
        case HandshakeError():
            return PeerStatus("refused", detail=error.message)
        case ssl.SSLCertVerificationError():
            why = str(error.strerror)
            return PeerStatus("refused", detail=Localizable(why, "link.certificate", {"why": why}))
        case InvalidStatus():
            passing = error.response.status_code >= _PASSING
            return PeerStatus("connecting" if passing else "refused", detail=denied(error))
        case LinkError(message=Localizable() as said):
            return PeerStatus("connecting", detail=said)
    why = str(error) or "no answer"
    return PeerStatus("connecting", detail=Localizable(why, "link.unreached", {"why": why}))


def lost(error: Exception) -> Localizable:
    """Why a connection was lost."""
    match error:
        case LinkError(message=Localizable() as said):
            return said
    return Localizable(str(error), LOST.code) if str(error) else LOST


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
    def stands(self) -> bool:
        """Whether the peer should not be asked now."""
        return time.monotonic() < self.again

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
