"""When an answer waits for the cloud no longer: it is late, silent, slow, or stands still."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from dragon.inference.estimates import Pace

_CROWD = 4  # answers at once that delay one another
_PATIENCE_S, _PATIENCE_A_TOKEN_S = 5.0, 0.5


class Failure(Enum):
    """What is wrong with the cloud."""

    LATE = auto()  # the first token should be written by now
    SILENT = auto()  # nothing has come by its connection
    SLOW = auto()  # the answer has waited for it too long, all in all
    STALLED = auto()  # messages come, but no token is agreed on


@dataclass(frozen=True)
class Seen:
    """An answer at a moment; times are those of the monotonic clock, in seconds.

    The cloud takes part if `joint`, and has said what it has found if `ready`; the answer waits for
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
    """Looks at an answer again and again, from `began` on.

    Its first token may wait until `deadline`, in seconds, and however long if that is None; all of
    it is `bounded` by what a reader waits for.
    """

    def __init__(self, began: float, deadline: float | None, pace: Pace, *, bounded: bool) -> None:
        self._began = self._quiet_since = self._then = began
        self._deadline = math.inf if deadline is None else deadline
        self._pace = pace
        self._bounded = bounded
        self._written = 0
        self._waited = 0.0

    def look(self, seen: Seen) -> Failure | None:
        """What is wrong by now, if anything."""
        now, then = seen.now, self._then
        self._then = now
        # Messages alone are no progress: a peer could send some for ever.
        if seen.busy or seen.written != self._written:
            self._written, self._quiet_since = seen.written, now
        elif seen.joint and seen.ready:
            self._waited += now - then
        # One that writes many answers at once is late for none of them.
        crowd = max(1.0, seen.sharing / _CROWD)
        late = now - self._began > self._deadline * crowd
        if seen.held and late:
            return Failure.LATE
        if not seen.joint:
            return None
        if self._deadline == math.inf and not seen.ready:
            self._quiet_since = now  # however long it takes: the connection watches itself
            return None
        stall, quiet = self._pace.stall_limit(), now - self._quiet_since
        if min(quiet, now - seen.received) > stall:
            return Failure.SILENT
        if not seen.ready:
            return Failure.LATE if late else None
        if self._bounded and self._waited > self._patience() * crowd:
            return Failure.SLOW  # whatever it sends or says of its pace
        if quiet > stall * 2**seen.resyncs:
            self._quiet_since = now
            return Failure.STALLED
        return None

    def _patience(self) -> float:
        """For how many seconds the answer may have waited for the cloud by now.

        Beside the round trip, which bounds no answer, so much a token as people still read along.
        """
        round_trip = min(1.0, self._pace.link.round_trip.value or 0.0)
        return _PATIENCE_S + self._written * (_PATIENCE_A_TOKEN_S + round_trip)
