"""One side of an answer: whether the other takes part in it now, and from which text on.

The device's tokens stand. It goes on alone when it loses the cloud, and may let it in again; a
cloud that is not let in waits. Where the two differ the cloud asks for the device's text, and takes
it over. Each change begins an incarnation, by which messages from before are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from dragon.protocol.committed_text import CommittedText
from dragon.protocol.messages import Draft, Join, Limits, Resync, Role, SessionMessage
from dragon.sampling.params import Sampling

# Resyncs without a token in between after which the peer is not worth waiting for.
MAX_RESYNCS = 3
# What the wire can count, less the one that losing the peer adds.
MAX_INCARNATION = (1 << 16) - 2


@dataclass
class _Mismatch:
    """Resyncs since the last committed token."""

    length: int = -1
    count: int = 0


@dataclass
class Participant(ABC):
    """The text of an answer as this side has it, and who writes it.

    `joint` says whether the other side takes part now.
    """

    role: Role
    sampling: Sampling
    limits: Limits
    committed: list[int] = field(default_factory=list)
    joint: bool = True
    incarnation: int = 0

    def __post_init__(self) -> None:
        self._text = CommittedText(self.committed)
        self._outbox: list[SessionMessage] = []
        self._joint_since = len(self.committed)
        self._intervals: list[tuple[int, int]] = []  # those that have ended
        self.alone_since = 0  # where the device last let the cloud go
        self._mismatch = _Mismatch()

    # What the driver reads.

    @property
    def finished(self) -> bool:
        """Whether the answer is complete on this side."""
        length = len(self.committed)
        return length >= self.limits.tokens or (
            length > 0 and self.committed[-1] in self.limits.end_ids
        )

    @property
    def resyncs(self) -> int:
        """How often the sides were found to differ since the last committed token."""
        return self._mismatch.count if self._mismatch.length == len(self.committed) else 0

    @property
    def joinable(self) -> bool:
        """Device: whether a cloud that is not joint can still be let in."""
        length = len(self.committed)
        room = length < self.limits.horizon and self.incarnation < MAX_INCARNATION
        return room and not (self.joint or self.finished)

    def intervals(self) -> tuple[tuple[int, int], ...]:
        """The half-open token ranges in which both sides took part."""
        now = len(self.committed)
        last = [(self._joint_since, now)] if self.joint and now > self._joint_since else []
        return (*self._intervals, *last)

    def take_outbox(self) -> list[SessionMessage]:
        """Messages to send, in order."""
        messages, self._outbox = self._outbox, []
        return messages

    # What the link tells.

    def stalled(self) -> None:
        """The driver saw no progress for as long as counts as a desync."""
        if self.joint and not self.finished:
            self._desync()

    def join(self, base: int) -> None:
        """Device: the cloud, which knows the first `base` tokens, takes part from here on."""
        assert self.role is Role.DEVICE
        assert not self.joint
        if not self.joinable:
            return
        self.joint = True
        self._joint_since = len(self.committed)
        self._restart(self.incarnation + 1)
        self._outbox.append(Join(self.incarnation, base, tuple(self.committed[base:])))

    def lose(self) -> None:
        """Device: go on alone (eta = 1) from the last committed token; drafts in hand count."""
        if not self.joint:
            return
        self.alone_since = len(self.committed)
        if len(self.committed) > self._joint_since:
            self._intervals.append((self._joint_since, len(self.committed)))
        self.joint = False
        self.incarnation += 1
        self._advance()

    def set_horizon(self, horizon: int) -> None:
        """Device: the cloud's context takes `horizon` generated tokens."""
        self.limits = Limits(self.limits.end_ids, self.limits.tokens, horizon)
        self._advance()

    # Inside.

    def _desync(self) -> None:
        """The two sides differ: the cloud asks, the device's tokens stand."""
        if self.role is Role.CLOUD:
            self.joint = False
            self._outbox.append(Resync(self.incarnation))
            self._clear()
            return
        self._mismatch = _Mismatch(len(self.committed), self.resyncs + 1)
        if self._mismatch.count > MAX_RESYNCS or self.incarnation >= MAX_INCARNATION:
            self.lose()
            return
        self._restart(self.incarnation + 1)
        self._outbox.append(Join(self.incarnation, 0, tuple(self.committed)))

    def _follow(self, join: Join) -> None:
        """Cloud: take over the device's tokens."""
        if join.incarnation <= self.incarnation:
            return  # an old connection's
        if join.base > len(self.committed):
            self._outbox.append(Resync(join.incarnation))
            return
        self.joint = True
        self._text.cut(join.base)
        for token in join.tail:
            self._commit(token)
        self._restart(join.incarnation)

    def _restart(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self._clear()

    @abstractmethod
    def _clear(self) -> None:
        """Drop all drafts, of either side."""

    @abstractmethod
    def _advance(self) -> None:
        """Commit all that can be committed."""

    @abstractmethod
    def _commit(self, token: int, own: Draft | None = None, remote: Draft | None = None) -> None:
        """One more token of the text, and the drafts it was drawn from."""
