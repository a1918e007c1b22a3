"""The state of an answer on one side: its text, both sides' drafts, and who takes part."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from dragon.protocol.messages import MAX_WINDOW, Draft, Work
from dragon.sampling.mixture import Side
from dragon.sampling.role import Role


@dataclass(frozen=True)
class Settled:
    """A committed token and the distributions it was drawn from.

    `remote` is None if one side wrote alone. `shares` are the shares of the other side's rows in
    the token, if that side drafted it and sent them.
    """

    position: int
    token: int
    own: Side
    remote: Side | None
    shares: tuple[float, ...] = ()


class CommittedText:
    """The committed text, in a list that its creator reads, with a checksum of every prefix.

    Checksums are CRC-32 over little-endian tokens. Only a side that follows the other is ever cut.
    """

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens
        self._checks = [0]
        for token in tokens:
            self._check(token)
        self._added: list[int] = []
        self._settled: list[Settled] = []

    def checksum(self, length: int) -> int:
        return self._checks[length]

    def add(self, token: int, own: Draft | None = None, remote: Draft | None = None) -> None:
        """Append a token, and note the frames it was drawn from."""
        self._tokens.append(token)
        self._check(token)
        self._added.append(token)
        if own is not None:
            other = None if remote is None else remote.side
            shares = remote.shares if remote is not None and remote.token == token else ()
            self._settled.append(Settled(own.position, token, own.side, other, shares))

    def cut(self, length: int) -> None:
        del self._tokens[length:]
        del self._checks[length + 1 :]

    def take_added(self) -> list[int]:
        added, self._added = self._added, []
        return added

    def take_settled(self) -> list[Settled]:
        """The own drafts among the tokens added since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def _check(self, token: int) -> None:
        self._checks.append(zlib.crc32(token.to_bytes(4, "little"), self._checks[-1]))


class Arrival(Enum):
    """The outcome of admitting a draft of the other side."""

    QUEUED = auto()
    STALE = auto()
    LATE = auto()  # its position is already committed
    DESYNC = auto()


class DraftQueues:
    """Both sides' drafts; each queue is contiguous from the first uncommitted position.

    An epoch counts a side's rejected drafts so far. Both sides count alike, since they compute the
    same targets, so a draft conditioned on a rejected token is recognised by its epoch.
    """

    def __init__(self) -> None:
        self.own: deque[Draft] = deque()
        self.remote: deque[Draft] = deque()
        self.own_epoch = 0
        self.remote_epoch = 0
        self._follows: int | None = None  # the position after the other side's last draft

    def __len__(self) -> int:
        return len(self.own) + len(self.remote)

    def admit(self, draft: Draft, text: CommittedText, length: int) -> Arrival:
        """Queue a draft of the other side if it follows what this side knows.

        The prefix is checked before the epoch. In the other order both sides would wait forever
        after a fault: a side that has diverged counts rejections that the other does not, and would
        drop all later drafts as stale.
        """
        # A sender cannot have committed more than this side: its earlier drafts came first.
        if draft.committed > length or draft.checksum != text.checksum(draft.committed):
            return Arrival.DESYNC
        if draft.epoch < self.remote_epoch:
            return Arrival.STALE
        if draft.epoch > self.remote_epoch or len(self.remote) >= MAX_WINDOW:
            return Arrival.DESYNC
        # This side has also seen every draft between the sender's text and this one.
        if draft.position not in (draft.committed, self._follows):
            return Arrival.DESYNC
        self._follows = draft.position + 1
        if draft.position < length:
            return Arrival.LATE
        if draft.position != length + len(self.remote):
            return Arrival.DESYNC
        self.remote.append(draft)
        return Arrival.QUEUED

    def pop_heads(self) -> tuple[Draft, Draft] | None:
        """Both drafts of the first position, own and remote; None unless both are there."""
        if not (self.own and self.remote):
            return None
        return self.own.popleft(), self.remote.popleft()

    def reject_own(self) -> None:
        """Drop the own drafts: the token they are conditioned on was rejected."""
        self.own.clear()
        self.own_epoch += 1

    def reject_remote(self) -> None:
        """Drop the other side's drafts: the token they are conditioned on was rejected."""
        self.remote.clear()
        self.remote_epoch += 1
        self._follows = None

    def clear(self) -> None:
        self.own.clear()
        self.remote.clear()

    def reset_epochs(self) -> None:
        self.own_epoch = self.remote_epoch = 0
        self._follows = None


@dataclass
class DecoderPrefix:
    """The generated tokens a decoder holds; the first `valid` of them match the text."""

    tokens: list[int] = field(default_factory=list)
    valid: int = 0

    def feed(self, known: Sequence[int], ahead: Sequence[int], version: int) -> Work:
        """Work that feeds the missing part of `known` and the tokens expected `ahead` of it.

        The last known token is fed again if the distribution after it is needed once more.
        """
        keep = max(0, min(self.valid, len(known) - 1))
        tokens = (*known[keep:], *ahead)
        self.tokens[keep:] = tokens
        self.valid = len(self.tokens)
        return Work(keep, tokens, 1 + len(ahead), version)

    def settle(self, position: int, token: int) -> None:
        """The text has `token` at `position`: a different token fed there is no longer valid."""
        if position < self.valid and self.tokens[position] != token:
            self.valid = position

    def abandon(self, work: Work) -> None:
        """The work was aborted half-way."""
        self.valid = min(self.valid, work.keep)


# Consecutive resyncs without a new token after which the device drops the cloud.
MAX_RESYNCS = 3
# The largest incarnation of a frame is 2^16 - 1; losing the cloud takes one more.
MAX_INCARNATION = (1 << 16) - 2


@dataclass
class Membership:
    """Whether both sides take part now (`joint`), since which token, and in which incarnation.

    The device's tokens stand. It continues alone when it loses the cloud, and may readmit it later;
    each change begins a new incarnation, which identifies messages from before it. `alone_since` is
    the token at which the device last went on alone.
    """

    joint: bool
    incarnation: int = 0
    joint_since: int = 0
    alone_since: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)
    _resynced_at: int = -1
    _resyncs: int = 0

    def intervals(self, length: int) -> tuple[tuple[int, int], ...]:
        """The half-open token ranges of a text of `length` tokens in which both sides took part."""
        last = [(self.joint_since, length)] if self.joint and length > self.joint_since else []
        return (*self._ended, *last)

    def leave(self, length: int) -> None:
        """The device continues alone from token `length` on."""
        self._ended = list(self.intervals(length))
        self.alone_since = length
        self.joint = False
        self.incarnation += 1

    def resyncs(self, length: int) -> int:
        """How often the sides were found to differ while the text had `length` tokens."""
        return self._resyncs if self._resynced_at == length else 0

    def resync(self, length: int) -> bool:
        """Count a resync at this length; False if the cloud should be dropped instead."""
        self._resyncs, self._resynced_at = self.resyncs(length) + 1, length
        return self._resyncs <= MAX_RESYNCS and self.incarnation < MAX_INCARNATION


@dataclass
class Agreement:
    """The device's record of the positions where both sides had a distribution.

    `verdicts` say whether the device's own draft and the cloud's are the target, whatever token a
    frame carried: in catch-up a frame carries the target itself. `aggregators` say which side
    computed the target, where only one does. `tv` sums the TV distances between the sides.
    """

    verdicts: list[tuple[bool, bool]] = field(default_factory=list)
    aggregators: list[Role] = field(default_factory=list)
    tv: float = 0.0

    def add(self, kept: tuple[bool, bool], tv: float, aggregator: Role | None = None) -> None:
        """Record a position; `aggregator` computed its target, None if each side did."""
        self.verdicts.append(kept)
        if aggregator is not None:
            self.aggregators.append(aggregator)
        self.tv += tv

    def acceptance(self) -> tuple[float, float]:
        """The acceptance rates of the device's and the cloud's drafts, 0 to 1."""
        count = max(1, len(self.verdicts))
        device, cloud = (sum(verdict[side] for verdict in self.verdicts) for side in (0, 1))
        return device / count, cloud / count
