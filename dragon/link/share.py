"""Limits the share of the event loop's time that one connection takes, whatever it sends."""

from __future__ import annotations

SHARE = 0.75
_BURST_S = 0.5
_SLICE_S = 0.005


class LoopShare:
    """A bucket of seconds that fills at `SHARE` per second and that handling frames empties.

    While it is empty the connection is not read, so the other side's sending stalls. Well before
    that, other tasks on the loop get their turn between slices of a few milliseconds.
    """

    def __init__(self, now: float) -> None:
        self._left = _BURST_S
        self._slice = 0.0
        self._then = now

    def took(self, seconds: float, now: float) -> float | None:
        """Record busy time; returns seconds to yield to other tasks, None to continue."""
        self._left = min(_BURST_S, self._left + SHARE * (now - self._then)) - seconds
        self._then = now
        self._slice += seconds
        if self._left >= 0 and self._slice <= _SLICE_S:
            return None
        self._slice = 0.0
        return max(0.0, -self._left / SHARE)
