"""One position at a time, without drafting ahead: what the references have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragon.protocol.rules.rule import Rule
from dragon.protocol.target_cache import TargetCache
from dragon.sampling.mixture import Side

if TYPE_CHECKING:
    from dragon.protocol.session import Session


class Lockstep(Rule):
    """Drafts one position and waits for its target; the noise is that of `coupled`."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._targets = TargetCache(session.role, session.sampling, session.agreement)

    def may_draft(self, position: int) -> bool:
        """As in `Rule`, and only one."""
        return not self.session.queues.own and super().may_draft(position)

    def propose(self, position: int, side: Side) -> int:
        """An own draft."""
        return self._targets.draft(side, position)
