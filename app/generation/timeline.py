"""The timeline of an answer: both sides' drafts, and the tokens that became text."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dragon.sampling.role import Role

_MOST = 1200
"""The most entries kept; a long answer's beginning shows how it was written."""
_SIDES = {Role.DEVICE: "d", Role.CLOUD: "c"}

Entry = tuple[str, int, float, float]


@dataclass
class Trace:
    """Entries are (kind, position, from, to): `d` or `c` a side's draft, `t` a token of the text.

    Times are in milliseconds since the answer began, on the device's clock.
    """

    started: float = field(default_factory=time.monotonic)
    entries: list[Entry] = field(default_factory=list)

    def draft(self, side: Role, position: int, decode_us: int, underway: float = 0.0) -> None:
        """A side decoded a position for `decode_us` microseconds, until `underway` seconds ago."""
        done = self._now() - 1000 * underway
        self._add(_SIDES[side], position, done - decode_us / 1000, done)

    def text(self, position: int, count: int) -> None:
        """`count` tokens from `position` on are final."""
        now = self._now()
        for at in range(position, position + count):
            self._add("t", at, now, now)

    def _now(self) -> float:
        return 1000 * (time.monotonic() - self.started)

    def _add(self, kind: str, position: int, begun: float, done: float) -> None:
        if len(self.entries) < _MOST:
            self.entries.append((kind, position, round(begun, 1), round(done, 1)))
