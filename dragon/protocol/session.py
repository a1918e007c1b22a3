"""The protocol of one answer on one side, as a state machine without socket, clock or thread.

A driver asks `next_work` for what the decoder should run, brings results to `complete` and frames
to `receive`, and carries away `take_outbox` and `take_commits` after each. `Session` is coupled
aggregation (design, section 4); `dragon.protocol.rules.tokenwise` is its slow reference.

Why both sides commit the same tokens: a token is computed from the two frames of its position
alone, frames of one side arrive in order, and a frame conditioned on a rejected token is known by
its epoch, the count of its side's rejections. Both sides count alike, since they compute alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragon.inference.logprobs import Settled
from dragon.protocol.acceptance import Agreement
from dragon.protocol.decoder_prefix import Fed
from dragon.protocol.membership import Participant
from dragon.protocol.messages import MAX_WINDOW, Draft, Join, Resync, Role, SessionMessage, Work
from dragon.protocol.target_cache import Judge
from dragon.sampling.mixture import Side


@dataclass
class Session(Participant):
    """Coupled aggregation on one side.

    `catch_up` lets a side that is behind run the other side's tokens in one forward. `window`
    bounds how far it drafts ahead.
    """

    catch_up: bool = True
    window: int = 1
    agreement: Agreement = field(default_factory=Agreement)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._heads = Judge(self.role, self.sampling)
        self._own: deque[Draft] = deque()
        self._remote: deque[Draft] = deque()
        self._own_epoch = 0
        self._remote_epoch = 0
        self._fed = Fed()
        self._version = 0
        self._work: Work | None = None

    # What the driver reads.

    @property
    def stale(self) -> bool:
        """Whether the work in flight is no longer wanted."""
        return self._work is not None and (self._work.version != self._version or self.finished)

    @property
    def queued(self) -> int:
        """Frames held in both queues; bounded by two windows."""
        return len(self._own) + len(self._remote)

    def take_commits(self) -> list[int]:
        """Tokens committed since the last call. They never change, on the device."""
        return self._text.take_added()

    def take_settled(self) -> list[Settled]:
        """Of the tokens committed since the last call those whose full distribution is known."""
        return self._text.take_settled()

    # The decoder's side.

    def next_work(self) -> Work | None:
        """What to decode next; None while one is in flight or nothing may be drafted."""
        position = len(self.committed) + len(self._own)
        if self._work is not None or not self._may_draft(position):
            return None
        known = [*self.committed, *(frame.token for frame in self._own)]
        ahead = self._lookahead(position)
        self._work = self._fed.feed(known, ahead, self._version)
        return self._work

    def complete(
        self, sides: Sequence[Side] | None, decode_us: int = 0, log_likelihood: float = 0.0
    ) -> None:
        """The result of the work in flight, a distribution an output; None if it was abandoned.

        `log_likelihood` is of the text scored so far, where works ask for scores.
        """
        work, self._work = self._work, None
        assert work is not None, "no work is in flight"
        if sides is None:
            self._fed.abandon(work)
            return
        if work.version != self._version:
            return
        for side in sides:
            position = len(self.committed) + len(self._own)
            if not self._may_draft(position):
                break
            self._push(position, side, decode_us)
            self._advance()
            # What follows was conditioned on a token that the text does not have here.
            if work.version != self._version or self._fed.valid <= position:
                break

    # The link's side.

    def receive(self, message: SessionMessage) -> None:
        """A message of the other side, in the order it was sent."""
        match message:
            case Draft():
                self._receive_draft(message)
            case Join() if self.role is Role.CLOUD:
                self._follow(message)
            case Resync() if self.role is Role.DEVICE:
                if self.joint and message.incarnation == self.incarnation:
                    self._desync()
            case _ if self.joint:
                self._desync()

    def lose(self) -> None:
        """As in `Participant`. What the cloud sent counts no more."""
        self._remote.clear()
        super().lose()

    # Inside.

    def _may_draft(self, position: int) -> bool:
        if self.finished or position >= self.limits.tokens:
            return False
        if self.joint and position >= self.limits.horizon:
            return False
        if self.role is Role.CLOUD and not self.joint:
            return False
        if self._own and self._own[-1].token in self.limits.end_ids:
            return False
        return len(self._own) < max(1, min(self.window, MAX_WINDOW))

    def _lookahead(self, position: int) -> list[int]:
        """Catch-up: the other side's tokens from `position` on, if this side has none itself.

        Not before the first token: its distribution is that of the prefill and waits for no step.
        """
        if not self.catch_up or self._own or position == 0:
            return []
        tokens: list[int] = []
        end = min(self.limits.tokens, self.limits.horizon)
        for frame in self._remote:
            if frame.token in self.limits.end_ids or position + len(tokens) + 1 >= end:
                break
            tokens.append(frame.token)
        return tokens

    def _push(self, position: int, side: Side, decode_us: int) -> None:
        token = self._propose(position, side)
        frame = Draft(
            self.incarnation,
            self._own_epoch,
            position,
            len(self.committed),
            self._text.checksum(len(self.committed)),
            token,
            decode_us,
            side,
        )
        self._own.append(frame)
        self._fed.settle(position, token)
        if self.joint:
            self._send(frame)

    def _send(self, frame: Draft) -> None:
        self._outbox.append(frame)

    def _propose(self, position: int, side: Side) -> int:
        """The token of an own frame: the target where it is known already, else an own draft."""
        if self.catch_up and self._remote and not self._own:
            return self._heads.target(side, self._remote[0].side, position)
        return self._heads.draft(side, position)

    def _advance(self) -> None:
        """Commit all that can be committed."""
        while not self.finished:
            if not self.joint:
                if self.role is Role.CLOUD or not self._own:
                    return
                draft = self._own.popleft()
                self._commit(draft.token, draft)
            elif len(self.committed) >= self.limits.horizon:
                if self.role is Role.CLOUD:
                    return
                self.lose()
            elif self._own and self._remote and self._decides():
                self._judge(self._own.popleft(), self._remote.popleft())
            else:
                return
        self._clear()

    def _decides(self) -> bool:
        """Whether this side computes tokens now: in coupled aggregation both always do."""
        return True

    def _judge(self, own: Draft, remote: Draft) -> None:
        self._take(own, remote, self._decided(own, remote))

    def _decided(self, own: Draft, remote: Draft) -> int:
        """The target; the device notes how well the sides agree."""
        token = self._heads.target(own.side, remote.side, own.position)
        if (judgement := self._heads.judgement) is not None:
            self.agreement.add(judgement)
        return token

    def _take(self, own: Draft, remote: Draft, token: int) -> None:
        """The heads of both queues are judged: keep what agrees, throw away what does not."""
        self._commit(token, own, remote)
        if remote.token != token:
            self._remote.clear()
            self._remote_epoch += 1
        if own.token != token:
            self._own.clear()
            self._own_epoch += 1
            self._version += 1

    def _commit(self, token: int, own: Draft | None = None, remote: Draft | None = None) -> None:
        self._fed.settle(len(self.committed), token)
        self._text.add(token, own, remote)

    def _receive_draft(self, frame: Draft) -> None:
        if not self.joint or self.finished or frame.incarnation != self.incarnation:
            return
        # The prefix is checked before the epoch: the other order deadlocks after a fault, when a
        # side that went astray raises its epoch and is then taken for one that is merely late.
        # A sender cannot have committed further than this side: its frames up to there came first.
        length = len(self.committed)
        if frame.committed > length or frame.checksum != self._text.checksum(frame.committed):
            self._desync()
        elif frame.epoch < self._remote_epoch:
            return
        elif (
            frame.epoch > self._remote_epoch
            or frame.position != length + len(self._remote)
            or len(self._remote) >= MAX_WINDOW
        ):
            self._desync()
        else:
            self._remote.append(frame)
            self._advance()

    def _restart(self, incarnation: int) -> None:
        self._own_epoch = self._remote_epoch = 0
        super()._restart(incarnation)

    def _clear(self) -> None:
        self._own.clear()
        self._remote.clear()
        self._version += 1
