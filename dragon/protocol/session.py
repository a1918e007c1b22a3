"""The protocol of one answer on one side, as a state machine without socket, clock or thread.

A driver asks `next_work` what the decoder should run, passes results to `complete` and messages to
`receive`, and collects `take_outbox` and `take_commits` after each. The session's rule decides how
the sides agree on a token (`dragon.protocol.rules`).

Why both sides commit the same tokens: a token is computed from the two drafts of its position
alone, the messages of one side arrive in order, and a draft conditioned on a rejected token is
recognised by its epoch, the count of its side's rejections. Both sides count alike, since they
compute alike. If they differ after a fault, the cloud asks for a resync, and the device's tokens
stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dragon.protocol.messages import Draft, Join, Limits, Resync, SessionMessage, Work
from dragon.protocol.rules.rule import Rule
from dragon.protocol.state import (
    MAX_INCARNATION,
    Agreement,
    Arrival,
    CommittedText,
    DecoderPrefix,
    DraftQueues,
    Membership,
    Settled,
)
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role

Permits = Callable[[Sequence[int], int], bool]
"""Whether a text may go on with a token."""


def anything(text: Sequence[int], token: int) -> bool:
    return True


class Session:
    """One side of an answer: its text, both sides' drafts, who takes part, and a rule.

    `catch_up` lets a side that is behind run the other side's drafts in one forward, if the rule
    supports it; `window` bounds how far this side drafts ahead. A device drops a cloud that brings
    a token refused by `permits`.
    """

    def __init__(
        self,
        role: Role,
        sampling: Sampling,
        limits: Limits,
        rule: Callable[[Session], Rule],
        *,
        committed: Sequence[int] = (),
        joint: bool = True,
        catch_up: bool = True,
        window: int = 1,
        permits: Permits = anything,
    ) -> None:
        self.role = role
        self.sampling = sampling
        self.limits = limits
        self.catch_up = catch_up
        self.window = window
        self.permits = permits
        self.committed = list(committed)
        self.membership = Membership(joint, joint_since=len(self.committed))
        self.queues = DraftQueues()
        self.agreement = Agreement()
        self._text = CommittedText(self.committed)
        self._prefix = DecoderPrefix()
        self._version = 0  # raised by whatever makes the work in flight useless
        self._work: Work | None = None
        self._outbox: list[SessionMessage] = []
        self.rule = rule(self)

    # Read by the driver.

    @property
    def joint(self) -> bool:
        return self.membership.joint

    @property
    def incarnation(self) -> int:
        """Raised by every resync, loss and rejoin."""
        return self.membership.incarnation

    @property
    def finished(self) -> bool:
        length = len(self.committed)
        return length >= self.limits.tokens or (
            length > 0 and self.committed[-1] in self.limits.end_ids
        )

    @property
    def stale(self) -> bool:
        """Whether the work in flight is no longer wanted."""
        return self._work is not None and (self._work.version != self._version or self.finished)

    @property
    def busy(self) -> bool:
        return self._work is not None

    @property
    def joinable(self) -> bool:
        """Device: whether a cloud that does not take part can still be admitted."""
        room = len(self.committed) < self.limits.horizon and self.incarnation < MAX_INCARNATION
        return room and not (self.joint or self.finished) and self.rule.joinable

    @property
    def resyncs(self) -> int:
        """How often the session has already waited at this standstill."""
        return self.rule.retries

    def intervals(self) -> tuple[tuple[int, int], ...]:
        """The half-open token ranges in which both sides took part."""
        return self.membership.intervals(len(self.committed))

    def take_outbox(self) -> list[SessionMessage]:
        messages, self._outbox = self._outbox, []
        return messages

    def take_commits(self) -> list[int]:
        """Tokens committed since the last call. On the device they never change."""
        return self._text.take_added()

    def take_settled(self) -> list[Settled]:
        return self._text.take_settled()

    # The decoder's side.

    def next_work(self) -> Work | None:
        """The decoder's next work; None if some is in flight or nothing may be drafted."""
        if self._work is not None:
            return None
        drafting = None
        position = len(self.committed) + len(self.queues.own)
        if self._may_draft(position):
            known = [*self.committed, *(draft.token for draft in self.queues.own)]
            drafting = self._prefix.feed(known, self.rule.lookahead(position), self._version)
        self._work = self.rule.work(drafting)
        return self._work

    def complete(
        self, sides: Sequence[Side] | None, decode_us: int = 0, log_likelihood: float = 0.0
    ) -> None:
        """Take the result of the work in flight: a distribution per output, None if abandoned.

        `log_likelihood` is that of all text scored so far, if the work asked for scores.
        """
        work, self._work = self._work, None
        assert work is not None, "no work is in flight"
        if sides is None:
            self._prefix.abandon(work)
            return
        if work.version != self._version:
            return
        if not work.outputs:
            self.rule.scored(work, log_likelihood)
            self.advance()
            return
        for side in sides:
            position = len(self.committed) + len(self.queues.own)
            if not self._may_draft(position):
                break
            self._push(position, side, decode_us)
            self.advance()
            # The rest was conditioned on a token that the text does not have here.
            if work.version != self._version or self._prefix.valid <= position:
                break

    # The link's side.

    def receive(self, message: SessionMessage) -> None:
        """Handle a message of the other side, in the order it was sent."""
        if isinstance(message, Join) and self.role is Role.CLOUD:
            self._follow(message)
        elif not self.joint:
            return
        elif isinstance(message, Join):
            self.desync()  # only the device sends one
        elif message.incarnation != self.incarnation:
            return  # from an old connection, or from before a resync
        elif not self.finished or isinstance(message, Resync):
            self.rule.receive(message)

    def stalled(self) -> None:
        """Handle a stall: the driver has seen no progress for its stall limit."""
        if self.joint and not self.finished:
            self.rule.stalled()

    def join(self, base: int) -> None:
        """Device: the cloud, which knows the first `base` tokens, takes part from here on."""
        assert self.role is Role.DEVICE
        assert not self.joint
        if not self.joinable:
            return
        self.membership.joint = True
        self.membership.joint_since = len(self.committed)
        self._restart(self.incarnation + 1)
        self.send(Join(self.incarnation, base, tuple(self.committed[base:])))

    def lose(self) -> None:
        """Device: continue alone (eta = 1) from the last committed token; its own drafts count."""
        self.queues.remote.clear()
        if self.joint:
            self.membership.leave(len(self.committed))
            self.advance()

    def set_horizon(self, horizon: int) -> None:
        """Set how many generated tokens the cloud's context takes."""
        self.limits = replace(self.limits, horizon=horizon)
        self.advance()

    # Called by the rule.

    def send(self, message: SessionMessage) -> None:
        self._outbox.append(message)

    def checksum(self, length: int) -> int:
        return self._text.checksum(length)

    def admit(self, draft: Draft) -> None:
        """Queue a draft of the other side and commit what it makes certain."""
        match self.queues.admit(draft, self._text, len(self.committed)):
            case Arrival.QUEUED:
                self.advance()
            case Arrival.LATE:
                self.rule.late(draft)
            case Arrival.DESYNC:
                self.desync()

    def commit(self, token: int, own: Draft | None = None, remote: Draft | None = None) -> None:
        """Append a token to the text, with the drafts it was drawn from."""
        self._prefix.settle(len(self.committed), token)
        self._text.add(token, own, remote)

    def refuse(self, token: int) -> bool:
        """Drop a cloud whose token is not permitted here; True if it was dropped."""
        if self.permits(self.committed, token):
            return False
        self.drop_drafts()
        self.lose()
        return True

    def settle(self, own: Draft, remote: Draft, token: int) -> None:
        """Commit the target of both heads, and drop what was conditioned on another token."""
        if self.refuse(token):
            return
        self.commit(token, own, remote)
        if remote.token != token:
            self.queues.reject_remote()
        if own.token != token:
            self.reject_own()

    def accept_own(self) -> None:
        draft = self.queues.own.popleft()
        self.commit(draft.token, draft)

    def overrule_own(self, token: int) -> None:
        """Commit a token other than the first own draft, if there is one."""
        self.commit(token)
        if self.queues.own:
            self.reject_own()
        else:
            self._version += 1  # the decoder is at this very position

    def reject_own(self) -> None:
        """Drop the own drafts, whose prefix was rejected, and the work in flight."""
        self.queues.reject_own()
        self._version += 1

    def advance(self) -> None:
        while not self.finished:
            if not self.joint:
                if self.role is Role.CLOUD or not self.queues.own:
                    return
                self.accept_own()
            elif len(self.committed) >= self.limits.horizon:
                if self.role is Role.DEVICE:
                    self.lose()
                return
            elif not self.rule.step():
                return
        self.drop_drafts()

    def score(self, keep: int, tokens: tuple[int, ...], scored: tuple[int, ...]) -> Work:
        """Work without drafts: after the first `keep` tokens feed `tokens` and score `scored`."""
        return Work(keep, tokens, 0, self._version, scored)

    def drop_drafts(self) -> None:
        """Drop all drafts, and the work in flight that extends them."""
        self.queues.clear()
        self._version += 1

    def desync(self) -> None:
        """The two sides differ: the cloud asks for a resync, the device's tokens stand."""
        if self.role is Role.CLOUD:
            self.membership.joint = False
            self.send(Resync(self.incarnation))
            self.drop_drafts()
        elif self.membership.resync(len(self.committed)):
            self._restart(self.incarnation + 1)
            self.send(Join(self.incarnation, 0, tuple(self.committed)))
        else:
            self.lose()

    # Internals.

    def _may_draft(self, position: int) -> bool:
        waits = self.role is Role.CLOUD and not self.joint
        if waits or self.finished or position >= self.limits.tokens:
            return False
        own = self.queues.own
        ended = bool(own) and own[-1].token in self.limits.end_ids
        return not ended and self.rule.may_draft(position)

    def _push(self, position: int, side: Side, decode_us: int) -> None:
        token, epoch = self.rule.propose(position, side), self.queues.own_epoch
        length = len(self.committed)
        check = self.checksum(length)
        draft = Draft(self.incarnation, epoch, position, length, check, token, decode_us, side)
        self.queues.own.append(draft)
        self._prefix.settle(position, token)
        if self.joint:
            self.rule.share(draft)

    def _follow(self, join: Join) -> None:
        if join.incarnation <= self.incarnation:
            return  # from an old connection
        if join.base > len(self.committed):
            self.send(Resync(join.incarnation))
            return
        self.membership.joint = True
        self._text.cut(join.base)
        for token in join.tail:
            self.commit(token)
        self._restart(join.incarnation)

    def _restart(self, incarnation: int) -> None:
        self.membership.incarnation = incarnation
        self.rule.restart()
