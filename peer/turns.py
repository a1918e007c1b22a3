"""When those who found no place for their answers should come back."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_S = 30.0


@dataclass
class Turns:
    """Times to come back at, one after the other, so that not all come back at once.

    No clock in here: callers pass times in seconds.
    """

    _last: float = 0.0

    def next(self, now: float, lasting_s: float, under_way: int) -> int:
        """In how many seconds the next one should come back, 1 to 30.

        Of so many answers under way, which last so long in the mean, one ends after the share of
        one in that time.
        """
        last = max(self._last, now) + lasting_s / under_way
        self._last = min(last, now + _MOST_S)
        return max(1, math.ceil(self._last - now))
