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
    """Remembers the last target: a side that catches up needs it twice.

    The device's `judgement` tells more of it; the cloud, which needs no more, saves the rest.
    """

    def __init__(self, role: Role, sampling: Sampling) -> None:
        self._role = role
        self._sampling = sampling
        self._last: tuple[Side, Side, int, int] | None = None
        self.judgement: Judgement | None = None

    def target(self, own: Side, remote: Side, position: int) -> int:
        """Of two heads, or of two that are about to be."""
        last = self._last
        if last is None or last[0] is not own or last[1] is not remote or last[2] != position:
            device, cloud = by_role(self._role, own, remote)
            if self._role is Role.DEVICE:
                self.judgement = aggregation.judge(device, cloud, self._sampling, position)
                token = self.judgement.token
            else:
                token = aggregation.target(device, cloud, self._sampling, position)
            self._last = last = own, remote, position, token
        return last[3]
