"""Drafts and targets under shared noise, each computed once."""

from __future__ import annotations

from dragon.protocol.acceptance import Agreement, Judgement
from dragon.protocol.messages import MAX_WINDOW, Draft
from dragon.sampling import fast_target, mixture
from dragon.sampling.fast_target import Race
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role, by_role


class TargetCache:
    """Keeps the races of own drafts that may still be judged, and the last target.

    Catch-up asks for a target twice. The device records in `agreement` how well the sides agree.
    """

    def __init__(self, role: Role, sampling: Sampling, agreement: Agreement) -> None:
        self._role = role
        self._sampling = sampling
        self._agreement = agreement
        self._races: dict[int, Race] = {}  # of own sides, by position
        self._last: tuple[Side, Side, int, int] | None = None
        self._judgement: Judgement | None = None

    def draft(self, own: Side, position: int) -> int:
        """The token this side would choose alone."""
        if self._sampling.truncates:
            return mixture.draft(own, self._sampling, position)
        return fast_target.draft(self._race(own, position), self._sampling, position)

    def target(self, own: Side, remote: Side, position: int) -> int:
        """The token both sides commit, given their distributions at a position."""
        last = self._last
        if last is None or last[0] is not own or last[1] is not remote or last[2] != position:
            token = self._compute(own, remote, position)
            self._last = last = own, remote, position, token
            self._races = {p: run for p, run in self._races.items() if p > position}
        return last[3]

    def judge(self, own: Draft, remote: Draft) -> int:
        """The target of two drafts that are about to be committed or rejected."""
        token = self.target(own.side, remote.side, own.position)
        if self._judgement is not None:
            self._agreement.add(self._judgement)
        return token

    def _compute(self, own: Side, remote: Side, position: int) -> int:
        sampling = self._sampling
        sides = by_role(self._role, own, remote)
        if sampling.truncates:
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
            self._judgement = Judgement(token, (device, cloud), tv)
        return token

    def _race(self, own: Side, position: int) -> Race:
        run = self._races.get(position)
        if run is None or run.side is not own:
            run = self._races[position] = Race.run(own, self._sampling, position)
            # A side alone, or one that is sent the target, never computes one that would drop
            # these.
            self._races.pop(position - MAX_WINDOW, None)
        return run
