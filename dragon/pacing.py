"""Estimates a side keeps of itself and of the link, and the draft window that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragon.session import MAX_WINDOW

_WEIGHT = 0.2
# No progress for this long counts as a desync, at least (design, section 4).
_MIN_STALL_S = 1.0


@dataclass
class Estimate:
    """An exponential moving average that starts at the first value it sees."""

    value: float | None = None

    def add(self, value: float) -> None:
        """Take in a new observation."""
        self.value = value if self.value is None else self.value + _WEIGHT * (value - self.value)


def draft_window(rtt_s: float, decode_s: float) -> int:
    """W = ceil((rtt + c) / c), at most `MAX_WINDOW`: enough drafts to cover a round trip."""
    return min(MAX_WINDOW, math.ceil((rtt_s + decode_s) / decode_s))


@dataclass
class Pace:
    """Round trip of the link and decode time of this side, in seconds."""

    round_trip: Estimate
    decode: Estimate

    def window(self) -> int:
        """How far to draft ahead, a guess before anything was measured."""
        rtt, decode = self.round_trip.value, self.decode.value
        if rtt is None or not decode:
            return 8
        return draft_window(rtt, decode)

    def stall_limit(self, remote_decode: float) -> float:
        """Seconds without any activity that count as a stall: max(1 s, 4 (rtt + c))."""
        slower = max(self.decode.value or 0.0, remote_decode)
        return max(_MIN_STALL_S, 4.0 * ((self.round_trip.value or 0.0) + slower))
