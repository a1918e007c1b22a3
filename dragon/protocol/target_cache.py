"""Drafting for a position and judging the frames of both sides for it, as either of them does."""

from __future__ import annotations

from typing import TypeVar

from dragon.protocol.acceptance import Judgement
from dragon.protocol.messages import MAX_WINDOW, Role
from dragon.sampling import fast_target, mixture
from dragon.sampling.fast_target import Race
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling

T = TypeVar("T")


def by_role(role: Role, own: T, remote: T) -> tuple[T, T]:
    """The device's first."""
    return (own, remote) if role is Role.DEVICE else (remote, own)


class Judge:
    """Remembers the races of own drafts that may still be judged, and the last target.

    Catch-up asks for a target twice.

    The device's `judgement` tells more of it; the cloud, which needs no more, saves the rest.
    """

    def __init__(self, role: Role, sampling: Sampling) -> None:
        self._role = role
        self._sampling = sampling
        self._races: dict[int, Race] = {}  # of own sides, by position
        self._last: tuple[Side, Side, int, int] | None = None
        self.judgement: Judgement | None = None

    def draft(self, own: Side, position: int) -> int:
        """The token this side would take if it were alone."""
        if self._sampling.top_p < 1.0:
            return mixture.draft(own, self._sampling, position)
        return fast_target.draft(self._race(own, position), self._sampling, position)

    def target(self, own: Side, remote: Side, position: int) -> int:
        """Of two heads, or of two that are about to be."""
        last = self._last
        if last is None or last[0] is not own or last[1] is not remote or last[2] != position:
            token = self._judge(own, remote, position)
            self._last = last = own, remote, position, token
            self._races = {p: run for p, run in self._races.items() if p > position}
        return last[3]

    def _judge(self, own: Side, remote: Side, position: int) -> int:
        sampling = self._sampling
        sides = by_role(self._role, own, remote)
        if sampling.top_p < 1.0:
            token = mixture.target(*sides, sampling, position)
            drafts = (mixture.draft(side, sampling, position) for side in sides)
        else:
            runs = self._race(own, position), Race.run(remote, sampling, position)
            races = by_role(self._role, *runs)
            token = fast_target.target(*races, sampling, position)
            drafts = (fast_target.draft(run, sampling, position) for run in races)
        if self._role is Role.DEVICE:
            device, cloud = (draft == token for draft in drafts)
            tv = mixture.total_variation(own, remote)
            self.judgement = Judgement(token, (device, cloud), tv)
        return token

    def _race(self, own: Side, position: int) -> Race:
        run = self._races.get(position)
        if run is None or run.side is not own:
            run = self._races[position] = Race.run(own, self._sampling, position)
            # A side alone, or one that is told the target, judges nothing.
            self._races.pop(position - MAX_WINDOW, None)
        return run
