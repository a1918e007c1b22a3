"""Peers that said when they accept another answer: until then they are not asked for one."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from dragon.link.address import PeerAddress
from dragon.localizable import Localizable, localizable

MOST_S = 60.0
"""Longer waits are cut to this: a key may be granted more meanwhile."""
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True)
class Refusal:
    """Why a peer refused an answer, and until when by its own account, on the monotonic clock.

    It is asked `again` by then, or sooner: no peer keeps a device from asking for a day.
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
        """The reason, and how long there is still to wait."""
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
