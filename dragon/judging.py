"""Judging the frames of both sides for one position, as either of them does."""

from __future__ import annotations

from typing import TypeVar

from dragon import aggregation
from dragon.aggregation import Judgement, Side
from dragon.protocol import Role
from dragon.sampling import Sampling

T = TypeVar("T")


def by_role(role: Role, own: T, remote: T) -> tuple[T, T]:
    """The device's first."""
    return (own, remote) if role is Role.DEVICE else (remote, own)


class Judge:
    """Remembers the last judgement: a side that catches up needs it twice."""

    def __init__(self, role: Role, sampling: Sampling) -> None:
        self._role = role
        self._sampling = sampling
        self._last: tuple[Side, Side, int, Judgement] | None = None

    def judge(self, own: Side, remote: Side, position: int) -> Judgement:
        """Of two heads, or of two that are about to be."""
        last = self._last
        if last is None or last[0] is not own or last[1] is not remote or last[2] != position:
            device, cloud = by_role(self._role, own, remote)
            judgement = aggregation.judge(device, cloud, self._sampling, position)
            self._last = last = own, remote, position, judgement
        return last[3]
