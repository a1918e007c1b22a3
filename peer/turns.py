"""When devices that found no room for their answers should come back."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_S = 30.0


@dataclass
class Turns:
    """Staggered times to come back, so that not all come back at once.

    There is no clock here: callers pass times in seconds.
    """

    _last: float = 0.0

    def next(self, now: float, lasting_s: float, under_way: int) -> int:
        """In how many seconds the next one should come back, 1 to 30.

        Of `under_way` answers that last `lasting_s` on average, one ends every lasting_s /
        under_way.
        """
        last = max(self._last, now) + lasting_s / under_way
        self._last = min(last, now + _MOST_S)
        return max(1, math.ceil(self._last - now))
