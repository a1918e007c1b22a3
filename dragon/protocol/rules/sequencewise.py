"""Sequencewise aggregation: each side writes a whole answer, and the likelier one is chosen.

RAG-Sequence (Lewis et al. 2020, equation 1) over two sides, called DRDG/SW by DRAGON (arXiv
2504.11197): an answer y has P(y) = eta P^device(y) + (1 - eta) P^cloud(y), and P^s(y) = sum over d
of softmax(R)_d times the product over t of p(y_t | d, y_<t), of full distributions at temperature
1. A side writes as if it were alone: from its quantized distribution, with the request's noise,
temperature and nucleus.

No side waits needlessly: both write at once; each sends its answer, the candidate, when it is
complete, and scores the other's in one forward. Only the device decides, at the latest when it has
scored the cloud's candidate and has the cloud's score of its own: after max(T_device + rtt + score,
T_cloud + rtt / 2 + score).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dragon.protocol.messages import Candidate, Draft, Score, SessionMessage, Work
from dragon.protocol.rules.rule import Rule
from dragon.sampling import mixture
from dragon.sampling.mixture import ETA_ONE, Side, device_weight
from dragon.sampling.role import Role

if TYPE_CHECKING:
    from dragon.protocol.session import Session

# Tokens scored in one forward: its logits take memory, and other answers wait for it.
MAX_SCORED = 128
# Stalls after which the device drops the cloud. How long the cloud needs to write is unknown, so
# each wait is twice the last: 127 stall limits in all, two minutes at least.
MAX_STALLS = 6


def log_likelihood(eta: int, device: float, cloud: float) -> float:
    """log P(y) of log P^device(y) and log P^cloud(y), eta in 1/65536 steps."""
    shares = ((eta, device), (ETA_ONE - eta, cloud))
    parts = [math.log(weight / ETA_ONE) + likelihood for weight, likelihood in shares if weight]
    return float(np.logaddexp.reduce(parts))


class Sequencewise(Rule):
    """Drafts without a window and sends nothing before the answer is complete.

    A device that is alone commits token by token, so it can admit a cloud only before the first
    token.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._own_likelihood: float | None = None  # of this side's candidate, under this side
        self._own_score: float | None = None  # of the device's candidate, under the cloud
        self._other: Candidate | None = None
        self._other_likelihood: float | None = None  # of the other's candidate, under this side
        self._scored = 0  # tokens of the other side's candidate scored so far
        self._stalls = 0

    @property
    def retries(self) -> int:
        return self._stalls

    @property
    def joinable(self) -> bool:
        """Only before the first token: the cloud writes whole answers."""
        return not self.session.committed

    # Drafting and scoring.

    def may_draft(self, position: int) -> bool:
        """As in `Rule`: until this side's answer is complete, without a window."""
        return not self._whole and position < self._room

    def propose(self, position: int, side: Side) -> int:
        return mixture.draft(side, self.session.sampling, position)

    def share(self, draft: Draft) -> None:
        """Nothing is sent: drafts stay here."""

    def work(self, drafting: Work | None) -> Work | None:
        """Draft, then score the last token, then score the other side's candidate."""
        if drafting is not None:
            return replace(drafting, scored=drafting.tokens)
        if self._whole and self._own_likelihood is None:
            return self._scoring(self._tokens, len(self._tokens) - 1)
        if self._whole and self._other is not None and self._other_likelihood is None:
            return self._scoring(self._other.tokens, self._scored)
        return None

    def scored(self, work: Work, log_likelihood: float) -> None:
        session = self.session
        if self._own_likelihood is None:
            self._own_likelihood = log_likelihood
            self._offer()
        elif len(work.scored) == len(work.tokens):
            self._scored += len(work.scored)
        else:
            self._other_likelihood = log_likelihood
            if session.role is Role.CLOUD:
                session.send(Score(session.incarnation, log_likelihood))

    def _scoring(self, tokens: tuple[int, ...], start: int) -> Work | None:
        """Score from `start` on; the last token need not be fed."""
        session = self.session
        if session.role is Role.CLOUD and not 0 < len(tokens) <= session.limits.horizon:
            return None  # the device can tell that itself
        fed = tokens[start : min(start + MAX_SCORED, len(tokens) - 1)]
        last = start + len(fed) == len(tokens) - 1
        return session.score(start, fed, fed + tokens[-1:] if last else fed)

    # The other side.

    def receive(self, message: SessionMessage) -> None:
        """Handle the other side's candidate or score; the first of each counts, others do not."""
        match message:
            case Candidate() if self._other is None:
                self._other = message
            case Score() if self._own_score is None:
                self._own_score = message.log_likelihood
        self.session.advance()

    def stalled(self) -> None:
        """Count a stall if this side has nothing left to do; drop the cloud after `MAX_STALLS`."""
        if self._whole and not self.session.busy:
            self._stalls += 1
            if self._stalls > MAX_STALLS:
                self.session.lose()

    def restart(self) -> None:
        """This side's answer stands; a readmitted cloud offers its own again."""
        self._other = None
        if self.session.role is Role.CLOUD and self._own_likelihood is not None:
            self._offer()

    def _offer(self) -> None:
        session = self.session
        assert self._own_likelihood is not None
        log_h = session.queues.own[0].side.log_h
        session.send(Candidate(session.incarnation, self._tokens, self._own_likelihood, log_h))

    # The decision.

    def step(self) -> bool:
        """Device: commit the likelier candidate once it is known."""
        session = self.session
        if session.role is Role.CLOUD or not self._whole:
            return False
        if len(session.queues.own) > session.limits.horizon or not self._weighable(self._other):
            session.lose()
            return False
        tokens = self._choice()
        for token in tokens or ():
            session.commit(token)
        return tokens is not None

    @property
    def _tokens(self) -> tuple[int, ...]:
        return tuple(draft.token for draft in self.session.queues.own)

    @property
    def _room(self) -> int:
        """The most tokens an answer may have here."""
        limits = self.session.limits
        if self.session.role is Role.DEVICE:
            return limits.tokens
        return min(limits.tokens, limits.horizon)

    @property
    def _whole(self) -> bool:
        """Whether this side's answer is complete but not committed."""
        own = self.session.queues.own
        return bool(own) and self._ends(own[-1].token, len(own))

    def _ends(self, last: int, length: int) -> bool:
        return last in self.session.limits.end_ids or length >= self._room

    def _weighable(self, candidate: Candidate | None) -> bool:
        """Whether a candidate counts as a whole answer here; each side's context must hold both."""
        if candidate is None:
            return True
        tokens = candidate.tokens
        return (
            0 < len(tokens) <= self._room
            and self._ends(tokens[-1], len(tokens))
            and self.session.limits.end_ids.isdisjoint(tokens[:-1])
            and all(self.session.permits(tokens[:at], each) for at, each in enumerate(tokens))
        )

    def _choice(self) -> tuple[int, ...] | None:
        """The likelier candidate, ties to the device's own; None while it is not known."""
        own, other = self._tokens, self._other
        if other is None or self._own_likelihood is None:
            return None
        if other.tokens == own:
            return own
        if self._other_likelihood is None:
            return None
        eta = device_weight(self.session.queues.own[0].side.log_h, other.log_h)
        # Without the cloud's score our likelihood is only a lower bound, which may suffice.
        own_score = -math.inf if self._own_score is None else self._own_score
        ours = log_likelihood(eta, self._own_likelihood, own_score)
        theirs = log_likelihood(eta, self._other_likelihood, other.log_likelihood)
        if ours >= theirs:
            return own
        return None if self._own_score is None else other.tokens
