"""One-way aggregation with a budget: what goes up reveals little about the device's passages.

Targets are those of `dragon.sampling.bounded`, drawn with the device's private noise: noise known
to the cloud, or a weight or a certificate that depends on passages, would reveal more than the
budget allows. What the device writes after it has lost the cloud is not bounded, so it never goes
up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragon.protocol.acceptance import Judgement
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.target_cache import TargetCache
from dragon.sampling import mixture
from dragon.sampling.accountant import Budget
from dragon.sampling.bounded import bare_of, bounded, drawn, log_weights
from dragon.sampling.mixture import Side

if TYPE_CHECKING:
    from dragon.protocol.messages import Draft
    from dragon.protocol.session import Session


class BudgetedTargets(TargetCache):
    """Draws targets within a budget. A target is computed only at the position to commit next."""

    def __init__(self, session: Session, budget: Budget, key: bytes) -> None:
        super().__init__(session.role, session.sampling, session.agreement)
        self._session = session
        self._budget = budget
        self._key = key
        self._cost = 0.0  # of the last target

    def draft(self, own: Side, position: int) -> int:
        """The token expected without passages, or the device's own token once it writes alone."""
        if not self._session.joint:
            return mixture.draft(own, self._sampling, position)
        bare = bare_of(own)
        return drawn(bare.ids, log_weights(bare, self._sampling.temperature), self._key, position)

    def judge(self, own: Draft, remote: Draft) -> int:
        """As in `TargetCache`, and charge the budget."""
        token = super().judge(own, remote)
        self._budget.charge(self._cost)
        return token

    def _compute(self, own: Side, remote: Side, position: int) -> int:
        sampling, budget = self._sampling, self._budget
        allowance = budget.allowance
        target = bounded(own.wire, bare_of(own), remote.wire, sampling, budget.order, allowance)
        self._cost = target.cost
        token = drawn(target.ids, target.log_p, self._key, position)
        kept = (
            self.draft(own, position) == token,
            mixture.draft(remote, sampling, position) == token,
        )
        self._judgement = Judgement(token, kept, mixture.total_variation(own, remote))
        return token


class Budgeted(OneWay):
    """The device's rule; the cloud uses that of `oneway`."""

    def __init__(self, session: Session, budget: Budget, key: bytes) -> None:
        super().__init__(session)
        self.targets = BudgetedTargets(session, budget, key)

    @property
    def joinable(self) -> bool:
        """Never: the cloud would be sent what was written without it."""
        return False
