"""Who takes part in an answer, and from which token on.

The device's tokens stand. It continues alone when it loses the cloud, and may readmit the cloud
later. Each change begins a new incarnation, which identifies messages from before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Consecutive resyncs without a new token after which the device gives the cloud up.
MAX_RESYNCS = 3
# The largest incarnation of a frame is 2^16 - 1; losing the cloud takes one more.
MAX_INCARNATION = (1 << 16) - 2


@dataclass
class Membership:
    """Whether both sides take part now (`joint`), since which token, and in which incarnation.

    `alone_since` is the token at which the device last went on alone.
    """

    joint: bool
    incarnation: int = 0
    joint_since: int = 0
    alone_since: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)
    _resynced_at: int = -1
    _resyncs: int = 0

    def intervals(self, length: int) -> tuple[tuple[int, int], ...]:
        """The half-open token ranges of a text of `length` tokens in which both sides took part."""
        last = [(self.joint_since, length)] if self.joint and length > self.joint_since else []
        return (*self._ended, *last)

    def enter(self, length: int) -> None:
        """Both sides take part from token `length` on."""
        self.joint = True
        self.joint_since = length

    def leave(self, length: int) -> None:
        """The device continues alone from token `length` on."""
        self._ended = list(self.intervals(length))
        self.alone_since = length
        self.joint = False
        self.incarnation += 1

    def resyncs(self, length: int) -> int:
        """How often the sides were found to differ while the text had `length` tokens."""
        return self._resyncs if self._resynced_at == length else 0

    def resync(self, length: int) -> bool:
        """Count a resync at this length; False if the cloud should be given up instead."""
        self._resyncs, self._resynced_at = self.resyncs(length) + 1, length
        return self._resyncs <= MAX_RESYNCS and self.incarnation < MAX_INCARNATION
