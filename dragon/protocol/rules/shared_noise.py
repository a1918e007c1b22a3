"""The modes that draw with shared noise: `coupled`, `exchange`, `tokenwise`; see also `oneway`.

The target is x_t = argmax_v log p_t(v) + T G_t(v) with p_t = eta p^device + (1 - eta) p^cloud and
Gumbel noise G_t that both sides derive from the seed. A side drafts with the same expression over
its own distribution, so where both drafts agree they are the target.

The text is a function of the seed, the distributions and which side took part when, so all these
modes write the same one. Since that alone defines a target, a side may draft by any rule: one that
is behind runs the other's drafts, so that an answer can be faster than its slower side decodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragon.protocol.messages import MAX_WINDOW, Draft, SessionMessage, Target
from dragon.protocol.rules.rule import Rule
from dragon.protocol.state import Agreement
from dragon.sampling import mixture
from dragon.sampling.mixture import Race, Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role, by_role

if TYPE_CHECKING:
    from dragon.protocol.session import Session


class TargetCache:
    """Drafts and targets, each computed once.

    It keeps the races of own drafts that may still be judged, and the last target, since catch-up
    asks for a target twice. The device records in `agreement` how well the sides agree.
    """

    def __init__(self, role: Role, sampling: Sampling, agreement: Agreement) -> None:
        self._role = role
        self._sampling = sampling
        self._agreement = agreement
        self._races: dict[int, Race] = {}  # of own sides, by position
        self._last: tuple[Side, Side, int, int] | None = None
        self._verdicts: tuple[tuple[bool, bool], float] | None = None  # and TV, of the last target

    def draft(self, own: Side, position: int) -> int:
        """The token this side would choose alone."""
        if self._sampling.truncates:
            return mixture.draft(own, self._sampling, position)
        return mixture.raced_draft(self._race(own, position), self._sampling, position)

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
        if self._verdicts is not None:
            self._agreement.add(*self._verdicts)
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
            token = mixture.raced_target(*races, sampling, position)
            drafts = (mixture.raced_draft(run, sampling, position) for run in races)
        if self._role is Role.DEVICE:
            device, cloud = (draft == token for draft in drafts)
            self._verdicts = (device, cloud), mixture.total_variation(own, remote)
        return token

    def _race(self, own: Side, position: int) -> Race:
        run = self._races.get(position)
        if run is None or run.side is not own:
            run = self._races[position] = Race.run(own, self._sampling, position)
            # A side alone, or one that is sent the target, never computes one that would drop
            # these.
            self._races.pop(position - MAX_WINDOW, None)
        return run


class SharedNoise(Rule):
    """Commits a position once both of its drafts are here."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.targets = TargetCache(session.role, session.sampling, session.agreement)

    def propose(self, position: int, side: Side) -> int:
        return self.targets.draft(side, position)

    def step(self) -> bool:
        heads = self.session.queues.pop_heads()
        if heads is None:
            return False
        self.session.settle(*heads, self.targets.judge(*heads))
        return True


class Lockstep(SharedNoise):
    """Drafts one position and waits for its target: slow and simple."""

    def may_draft(self, position: int) -> bool:
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


class Tokenwise(Lockstep):
    """Only the cloud sends distributions, only the device tokens: a round trip per token.

    This is the vanilla distributed RAG of DRAGON (arXiv 2504.11197, section 2.2).
    """

    def share(self, draft: Draft) -> None:
        """The device keeps its drafts."""
        if self.session.role is Role.CLOUD:
            super().share(draft)

    def step(self) -> bool:
        """Device: commit the position once the cloud's draft is here, and send its token."""
        session = self.session
        heads = session.queues.pop_heads()
        if heads is None:
            return False
        own, remote = heads
        token = self.targets.judge(own, remote)
        if session.refuse(token):
            return False
        kept = (own.token == token, remote.token == token)
        session.send(Target(session.incarnation, own.position, token, *kept, Role.DEVICE))
        session.commit(token, own, remote)
        return True

    def receive(self, message: SessionMessage) -> None:
        """Cloud: the token of the position that was drafted last."""
        session = self.session
        if not isinstance(message, Target) or session.role is Role.DEVICE:
            super().receive(message)
        elif message.position != len(session.committed) or not session.queues.own:
            session.desync()
        else:
            session.commit(message.token, session.queues.own.popleft())
            session.queues.own.clear()
            session.advance()


class Exchange(Lockstep):
    """Each side sends its distribution and waits for the other's: half a round trip per token."""


class Coupled(CatchUp):
    """Both sides send their drafts and compute every target: the fastest, for a trusted peer.

    Nobody waits for a verdict, and no target crosses the link. At T = 1 drafts agree with a
    probability of at least (1 - TV) / (1 + TV) of the two sides' distributions, and where they
    agree, that token is the target, unless the mixture is truncated. Independent drafts, as in
    Algorithm 1, are rejected even where both sides hold the same distribution.
    """
