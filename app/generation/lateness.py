"""When an answer stops waiting for the cloud: it is late, silent, slow, or stalled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from dragon.inference.estimates import Pace

_CROWD = 4  # concurrent answers that delay one another
_PATIENCE_S, _PATIENCE_A_TOKEN_S = 5.0, 0.5


class Failure(Enum):
    """What is wrong with the cloud."""

    LATE = auto()  # the first token is overdue
    SILENT = auto()  # nothing has come on its connection
    SLOW = auto()  # the answer has waited too long for it in total
    STALLED = auto()  # messages come, but no token is agreed on


@dataclass(frozen=True)
class Seen:
    """An answer at one moment; times are those of the monotonic clock, in seconds.

    The cloud takes part if `joint`, and has reported its documents if `ready`; the answer waits for
    its room if `held`. `received` is when anything last came on its connection; `sharing` is how
    many answers the engine writes.
    """

    now: float
    written: int
    busy: bool
    joint: bool
    ready: bool
    held: bool
    received: float
    resyncs: int
    sharing: int


class Lateness:
    """Checks an answer periodically, from `began` on.

    Its first token may wait until `deadline`, in seconds, or indefinitely if that is None; if
    `bounded`, the whole answer waits no longer than a reader would.
    """

    def __init__(self, began: float, deadline: float | None, pace: Pace, *, bounded: bool) -> None:
        self._began = self._quiet_since = self._then = began
        self._deadline = math.inf if deadline is None else deadline
        self._pace = pace
        self._bounded = bounded
        self._written = 0
        self._waited = 0.0

    def look(self, seen: Seen) -> Failure | None:
        """The failure at this moment, if any."""
        now, then = seen.now, self._then
        self._then = now
        # Messages alone are no progress: a peer could send them forever.
        if seen.busy or seen.written != self._written:
            self._written, self._quiet_since = seen.written, now
        elif seen.joint and seen.ready:
            self._waited += now - then
        # With many answers at once, the cloud is not late for each of them.
        crowd = max(1.0, seen.sharing / _CROWD)
        late = now - self._began > self._deadline * crowd
        if seen.held and late:
            return Failure.LATE
        if not seen.joint:
            return None
        if self._deadline == math.inf and not seen.ready:
            self._quiet_since = now  # however long it takes: the connection has its own watchdog
            return None
        stall, quiet = self._pace.stall_limit(), now - self._quiet_since
        if min(quiet, now - seen.received) > stall:
            return Failure.SILENT
        if not seen.ready:
            return Failure.LATE if late else None
        if self._bounded and self._waited > self._patience() * crowd:
            return Failure.SLOW  # whatever it sends or says about its pace
        if quiet > stall * 2**seen.resyncs:
            self._quiet_since = now
            return Failure.STALLED
        return None

    def _patience(self) -> float:
        """For how many seconds the answer may have waited for the cloud by now.

        Besides the round trip, which limits no answer, the time per token at which people can read
        along.
        """
        round_trip = min(1.0, self._pace.link.round_trip.value or 0.0)
        return _PATIENCE_S + self._written * (_PATIENCE_A_TOKEN_S + round_trip)
