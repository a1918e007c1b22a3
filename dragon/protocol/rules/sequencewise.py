"""Sequencewise aggregation: each side writes a whole answer, and the likelier of the two is taken.

RAG-Sequence (Lewis et al. 2020, equation 1) over two sides, the paper's DRDG/SW: an answer y has
P(y) = eta P^device(y) + (1 - eta) P^cloud(y), and P^s(y) = sum over d of softmax(R)_d times the
product over t of p(y_t | d, y_<t), of full distributions at temperature 1. A side writes with the
noise, the temperature and the nucleus of the request, from its wire form, as if it were alone.

Nobody waits without need: both sides write at once; each sends its answer, the candidate, when it
is whole, and scores the other's in one forward. Only the device decides, at the latest when it has
scored the cloud's candidate and has the cloud's score of its own: after
max(T_device + rtt + score, T_cloud + rtt / 2 + score).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragon.protocol.messages import Candidate, Draft, Join, Role, Score, SessionMessage, Work
from dragon.protocol.session import Session
from dragon.sampling.mixture import ETA_ONE, Side, device_weight

# Tokens scored in one forward: its logits take memory, and other answers wait for it.
MAX_SCORED = 128
# Stalls after which the cloud is not worth waiting for. How long it has to write cannot be known,
# so each wait is twice the last: 127 stall limits in all, two minutes at least.
MAX_STALLS = 6


def log_likelihood(eta: int, device: float, cloud: float) -> float:
    """log P(y) of log P^device(y) and log P^cloud(y), eta in 1/65536 steps."""
    shares = ((eta, device), (ETA_ONE - eta, cloud))
    parts = [math.log(weight / ETA_ONE) + likelihood for weight, likelihood in shares if weight]
    return float(np.logaddexp.reduce(parts))


class SequencewiseSession(Session):
    """Drafts as `Session` does, without a window, and sends nothing before its answer is whole.

    A device that is alone commits token by token as ever; a cloud can only be let in before that.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._own_likelihood: float | None = None  # of this side's candidate, here
        self._own_score: float | None = None  # of the device's candidate, by the cloud
        self._other: Candidate | None = None
        self._other_likelihood: float | None = None  # of the other side's candidate, here
        self._scored = 0  # tokens of the other side's candidate
        self._stalls = 0

    @property
    def resyncs(self) -> int:
        """Stalls so far: each is waited for twice as long as the last."""
        return self._stalls

    @property
    def joinable(self) -> bool:
        """As in `Session`, and only before the first token: the cloud writes whole answers."""
        return super().joinable and not self.committed

    # The decoder's side.

    def next_work(self) -> Work | None:
        """Drafts, then the score of the last token, then of the other side's candidate."""
        if self._work is not None:
            return None
        if not self._whole:
            work = super().next_work()
            self._work = work and replace(work, scored=work.tokens)
        elif self._own_likelihood is None:
            self._work = self._scoring(self._tokens, len(self._own) - 1)
        elif self._other is not None and self._other_likelihood is None:
            self._work = self._scoring(self._other.tokens, self._scored)
        return self._work

    def complete(
        self, sides: Sequence[Side] | None, decode_us: int = 0, log_likelihood: float = 0.0
    ) -> None:
        """As in `Session`, and scores."""
        assert self._work is not None, "no work is in flight"
        if self._work.outputs:
            super().complete(sides, decode_us)
            return
        work, self._work = self._work, None
        if sides is None or work.version != self._version:
            return
        last = len(work.scored) > len(work.tokens)
        if self._own_likelihood is None:
            self._own_likelihood = log_likelihood
            self._offer()
        elif not last:
            self._scored += len(work.scored)
        else:
            self._other_likelihood = log_likelihood
            if self.role is Role.CLOUD:
                self._outbox.append(Score(self.incarnation, log_likelihood))
        self._advance()

    # The link's side.

    def receive(self, message: SessionMessage) -> None:
        """The other side's candidate or score; the first one stands.

        Anything else is an old connection's, or of a peer that will be given up in time.
        """
        if isinstance(message, Join) and self.role is Role.CLOUD:
            self._follow(message)
        if not self.joint or self.finished or message.incarnation != self.incarnation:
            return
        match message:
            case Candidate() if self._other is None:
                self._other = message
            case Score() if self._own_score is None:
                self._own_score = message.log_likelihood
        self._advance()

    def stalled(self) -> None:
        """Device: nothing happens here, and nothing has come from the cloud."""
        if self.joint and self._whole and self._work is None:
            self._stalls += 1
            if self._stalls > MAX_STALLS:
                self.lose()

    # Inside.

    @property
    def _tokens(self) -> tuple[int, ...]:
        return tuple(frame.token for frame in self._own)

    @property
    def _room(self) -> int:
        """The most tokens an answer may have here."""
        if self.role is Role.DEVICE:
            return self.limits.tokens
        return min(self.limits.tokens, self.limits.horizon)

    @property
    def _whole(self) -> bool:
        """Whether this side's answer is written, but not taken."""
        return bool(self._own) and self._ends(self._own[-1].token, len(self._own))

    def _ends(self, last: int, length: int) -> bool:
        return last in self.limits.end_ids or length >= self._room

    def _may_draft(self, position: int) -> bool:
        waiting = self.role is Role.CLOUD and not self.joint
        return not (self.finished or waiting or self._whole or position >= self._room)

    def _scoring(self, tokens: tuple[int, ...], start: int) -> Work | None:
        """Score from `start` on; the last token need not be fed."""
        if self.role is Role.CLOUD and not 0 < len(tokens) <= self.limits.horizon:
            return None  # the device knows that for itself
        fed = tokens[start : min(start + MAX_SCORED, len(tokens) - 1)]
        last = start + len(fed) == len(tokens) - 1
        return Work(start, fed, 0, self._version, fed + tokens[-1:] if last else fed)

    def _send(self, frame: Draft) -> None:
        """Drafts stay here."""

    def _offer(self) -> None:
        """Send the whole answer."""
        assert self._own_likelihood is not None
        log_h = self._own[0].side.log_h
        self._outbox.append(Candidate(self.incarnation, self._tokens, self._own_likelihood, log_h))

    def _follow(self, join: Join) -> None:
        """Cloud: what it has written stands, in the new incarnation."""
        if join.incarnation <= self.incarnation or self._other is not None:
            return
        self.joint = True
        self.incarnation = join.incarnation
        if self._own_likelihood is not None:
            self._offer()

    def _restart(self, incarnation: int) -> None:
        """Device: what it has written stands; the cloud that is let in writes anew."""
        self.incarnation = incarnation
        self._other = None

    def _advance(self) -> None:
        """Commit what is certain."""
        if not self.joint:
            super()._advance()
        elif self.role is Role.DEVICE and self._whole:
            if len(self._own) > self.limits.horizon or not self._weighable(self._other):
                self.lose()
            elif (tokens := self._choice()) is not None:
                for token in tokens:
                    self._commit(token)
                self._clear()

    def _weighable(self, candidate: Candidate | None) -> bool:
        """Whether a candidate is a whole answer here: each side's context must hold both."""
        if candidate is None:
            return True
        tokens = candidate.tokens
        return (
            0 < len(tokens) <= self._room
            and self._ends(tokens[-1], len(tokens))
            and self.limits.end_ids.isdisjoint(tokens[:-1])
        )

    def _choice(self) -> tuple[int, ...] | None:
        """The likelier candidate, ties to the device's own; None where it is not known yet."""
        own, other = self._tokens, self._other
        if other is None or self._own_likelihood is None:
            return None
        if other.tokens == own:
            return own
        if self._other_likelihood is None:
            return None
        eta = device_weight(self._own[0].side.log_h, other.log_h)
        # Without the cloud's score the own likelihood is a lower bound, and may be enough.
        own_score = -math.inf if self._own_score is None else self._own_score
        ours = log_likelihood(eta, self._own_likelihood, own_score)
        theirs = log_likelihood(eta, self._other_likelihood, other.log_likelihood)
        if ours >= theirs:
            return own
        return None if self._own_score is None else other.tokens
