"""What the modes that draw with shared noise have in common: drafts, targets, when to commit.

The target is x_t = argmax_v log p_t(v) + T G_t(v) with p_t = eta p^device + (1 - eta) p^cloud and
Gumbel noise G_t that both sides derive from the seed. A side drafts with the same expression over
its own distribution, so where both drafts agree they are the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragon.protocol.rules.rule import Rule
from dragon.protocol.target_cache import TargetCache
from dragon.sampling.mixture import Side

if TYPE_CHECKING:
    from dragon.protocol.session import Session


class SharedNoise(Rule):
    """Commits a position once both of its drafts are here."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.targets = TargetCache(session.role, session.sampling, session.agreement)

    def propose(self, position: int, side: Side) -> int:
        """The token this side would choose alone."""
        return self.targets.draft(side, position)

    def step(self) -> bool:
        """Commit the target of the first position."""
        heads = self.session.queues.pop_heads()
        if heads is None:
            return False
        self.session.settle(*heads, self.targets.judge(*heads))
        return True


class Lockstep(SharedNoise):
    """Drafts one position and waits for its target: slow and simple."""

    def may_draft(self, position: int) -> bool:
        """As in `Rule`, and only one at a time."""
        return not self.session.queues.own and super().may_draft(position)


class CatchUp(SharedNoise):
    """Drafts ahead; a side that is behind runs the other side's drafts in one forward."""

    def lookahead(self, position: int) -> Sequence[int]:
        """The other side's tokens from `position` on, if this side has drafted none.

        Not before the first token: its distribution comes with the prefill and waits for no step.
        """
        session = self.session
        if not session.catch_up or session.queues.own or position == 0:
            return ()
        tokens: list[int] = []
        end = min(session.limits.tokens, session.limits.horizon)
        for draft in session.queues.remote:
            if draft.token in session.limits.end_ids or position + len(tokens) + 1 >= end:
                break
            tokens.append(draft.token)
        return tokens

    def propose(self, position: int, side: Side) -> int:
        """The target if it is already known, else an own draft."""
        session = self.session
        if session.catch_up and session.queues.remote and not session.queues.own:
            return self.targets.target(side, session.queues.remote[0].side, position)
        return super().propose(position, side)
