"""How well the two sides of an answer agree."""

from __future__ import annotations

from dataclasses import dataclass

from dragon import aggregation
from dragon.aggregation import Side


@dataclass
class Agreement:
    """How well the sides agree: sums over the `judged` positions where both had a distribution.

    `own` and `remote` count whether the side's own draft is the target, whatever token its frame
    carried: in catch-up that is the target itself. `tv` is the distance between the two. The
    device keeps it.
    """

    judged: int = 0
    own: int = 0
    remote: int = 0
    tv: float = 0.0

    def add(self, own_kept: bool, remote_kept: bool, own: Side, remote: Side) -> None:
        """Take in one position."""
        self.judged += 1
        self.own += own_kept
        self.remote += remote_kept
        self.tv += aggregation.total_variation(own, remote)
