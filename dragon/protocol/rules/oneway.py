"""One-way aggregation: the cloud's distributions come down, only tokens of the answer go up.

The cloud drafts ahead and sends its drafts; nothing in them is private. The device holds both
distributions and computes each target alone, the same one as in `coupled`. If the target is the
cloud's draft, the device only acknowledges how far the text has come; if not, it sends the token.
So the cloud drafts and the device verifies, as in speculative decoding.

While the cloud's largest weight is known and its distribution is not yet, the device may still be
able to determine the target (`certified`). It commits such a token at once. The cloud's draft of
that position may already be in flight: the device accepts it when it comes, as the cloud accepts
the token, and both count it as rejected or not.

The device sends these tokens only once it needs the cloud, for a later position that it cannot
determine itself: if it determines the rest of an answer, none of that rest goes up.

With a privacy budget (`Budgeted`) what goes up also reveals little about the device's passages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dragon.protocol.messages import MAX_WINDOW, Correction, Draft, SessionMessage
from dragon.protocol.rules.shared_noise import CatchUp, TargetCache
from dragon.sampling import mixture, noise
from dragon.sampling.mixture import DOUBT, ETA_ONE, Side, device_weight, paces
from dragon.sampling.noise import Ids
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import Budget, bare_of, bounded, drawn, tempered
from dragon.sampling.role import Role
from dragon.sampling.truncation import STEPS, least_likely, steps_of

if TYPE_CHECKING:
    from dragon.protocol.session import Session


class OneWay(CatchUp):
    """All token ids are below `vocabulary`; None disables certificates.

    It must be None if the cloud's relevance is re-scored: its weight may then grow at any time.
    """

    def __init__(self, session: Session, vocabulary: int | None = None) -> None:
        super().__init__(session)
        self._vocabulary = vocabulary
        self._log_h: int | None = None  # upper bound of the cloud's log h
        self._uncertain: Draft | None = None  # an own draft without a certificate
        self._told = len(session.committed)  # tokens that the cloud knows, or will
        self._decode_us = 0  # of the last step that counted
        self._words: list[int] = []  # the last tokens of the text, which the cloud lacks
        self._certain = 0  # how many of the last tokens were certified

    def share(self, draft: Draft) -> None:
        """The device keeps its drafts."""
        if self.session.role is Role.CLOUD:
            super().share(draft)

    def weigh(self, log_h: int) -> None:
        """As in `Rule`. What is certain at this weight is certain at any smaller one."""
        self._log_h = log_h

    @property
    def told(self) -> int:
        return self._told

    def step(self) -> bool:
        """Device: commit the first position if its target is known; send what the cloud needs."""
        if self.session.role is Role.CLOUD:
            return False
        if self._take_heads() or self._take_certified():
            return True
        if not self._certain_so_far():
            self._send_corrections()
        return False

    def receive(self, message: SessionMessage) -> None:
        """Cloud: handle a correction: how far the text has come, and how it continues."""
        if self.session.role is Role.DEVICE:
            super().receive(message)
        elif isinstance(message, Correction):
            self._follow(message)
        else:
            self.session.desync()

    def late(self, draft: Draft) -> None:
        """Device: a draft of a position whose token was certified first.

        When the token reaches the cloud, the cloud drops what it drafted after this draft, or keeps
        it.
        """
        if draft.token != self.session.committed[draft.position]:
            self.session.queues.reject_remote()

    def restart(self) -> None:
        super().restart()
        self._told = len(self.session.committed)
        self._words.clear()
        self._certain = 0
        self._uncertain = None

    def _take_heads(self) -> bool:
        heads = self.session.queues.pop_heads()
        if heads is None:
            return False
        own, remote = heads
        self._decode_us = own.decode_us if own.position else 0
        token = self.targets.judge(own, remote)
        self.session.settle(own, remote, token)
        if self._words or token != remote.token:
            self._words.append(token)
        self._certain = 0
        return True

    def _take_certified(self) -> bool:
        """Commit the own draft of the first position if the cloud cannot change the target."""
        session = self.session
        if session.queues.remote or not session.queues.own or self._vocabulary is None:
            return False
        draft = session.queues.own[0]
        if draft is self._uncertain or self._log_h is None:
            return False
        if not certified(
            draft.side, self._log_h, draft.token, session.sampling, draft.position, self._vocabulary
        ):
            self._uncertain = draft
            return False
        session.accept_own()
        self._words.append(draft.token)
        self._certain += 1
        return True

    def _certain_so_far(self) -> bool:
        """Whether the cloud lacks only certified tokens, and the next one may be certified, too."""
        untold = len(self.session.committed) - self._told
        return untold == self._certain and not self.session.queues.own

    def _send_corrections(self) -> None:
        """Tell the cloud up to where its drafts stand, and which tokens follow."""
        session = self.session
        length = len(session.committed)
        if length == self._told:
            return
        for start in range(0, max(1, len(self._words)), MAX_WINDOW):
            position = length - len(self._words) + start
            session.send(
                Correction(
                    session.incarnation,
                    position,
                    session.checksum(position),
                    self._decode_us,
                    tuple(self._words[start : start + MAX_WINDOW]),
                )
            )
        self._told = length
        self._words.clear()
        self._certain = 0

    def _follow(self, correction: Correction) -> None:
        """Commit own drafts up to a position, and the device's tokens from there on."""
        session, own = self.session, self.session.queues.own
        kept = correction.position - len(session.committed)
        if not 0 <= kept <= len(own):
            session.desync()
            return
        for _ in range(kept):
            session.accept_own()
        if correction.checksum != session.checksum(correction.position):
            session.desync()
            return
        for token in correction.tokens:
            if own and own[0].token == token:
                session.accept_own()
            else:
                session.overrule_own(token)
        session.advance()


# If the rest of the vocabulary would leave x the target with a probability below e^-4, skip the
# check: it needs one number per token.
_HOPELESS = 4.0


def certified(
    device: Side, cloud_log_h: int, token: int, sampling: Sampling, position: int, vocabulary: int
) -> bool:
    """Whether the target is `token`, the device's draft, whatever the cloud's distribution is.

    Token ids are below `vocabulary`. False does not mean that the target is another token.

    Of p = eta p^d + (1 - eta) p^c only p^d and eta are known. A token's own weight is at least eta
    p^d(x); another's is at most eta p^d(v) + 1 - eta, if the cloud puts all its mass on it. So x is
    the target if even then no other token is faster in the race of `mixture.paces`:

        eta p^d(x) / E_x^T  >  max over v != x of (eta p^d(v) + 1 - eta) / E_v^T,  E_v = -log U(v).

    Truncation can only affect this by dropping x itself. A nucleus keeps x if all other tokens
    together weigh less than the nucleus holds: 1 - eta p^d(x) < top_p. `top_k` keeps it if the
    cloud's mass is too small to make that many others as heavy as x, and `min_p` if x is heavy
    enough beside the heaviest token that the cloud can make.
    """
    wire = device.wire
    eta = device_weight(device.log_h, cloud_log_h)
    place = int(np.searchsorted(wire.ids, token))
    own = eta * int(wire.weights[place])
    lift = (ETA_ONE - eta) * wire.total  # the weight of all of the cloud's mass, on the same scale
    if own <= lift:  # x would need luck: it loses if the noise favours no token
        return False
    raised = eta * wire.weights + lift
    raised[place] = 0
    if sampling.temperature == 0.0:
        return own > int(raised.max())
    if sampling.truncates and not _kept(own, raised, lift, wire.total, sampling):
        return False
    pace = paces(np.array([token]), np.array([own]), sampling, position)[0] * (1.0 - DOUBT)
    if lift >= pace:
        return False
    # A token outside our nucleus needs E^T < lift / pace; about V times this bound are that small.
    bound = (lift / pace) ** (1.0 / sampling.temperature)
    if bound * vocabulary > _HOPELESS:
        return False
    if bool((paces(wire.ids, raised, sampling, position) >= pace).any()):
        return False
    others = np.delete(np.arange(vocabulary, dtype=np.int64), wire.ids)
    u = noise.uniform(sampling.seed, sampling.stream, position, others)
    return not len(u) or bool(-np.log(u.max()) > bound * (1.0 + DOUBT))


def _kept(own: int, raised: Ids, lift: int, total: int, sampling: Sampling) -> bool:
    """Whether truncation keeps a token of weight `own`, whatever the cloud's distribution is.

    `raised` int64 [n] are the other tokens' weights, each with all of the cloud's mass, `lift`,
    added; all weights together are 65536 times `total`.
    """
    if sampling.top_p < 1.0 and own <= (STEPS - steps_of(sampling.top_p)) * total:
        return False
    if own < least_likely(int(raised.max()), sampling.min_p):
        return False
    # The cloud's mass goes first to the tokens that need the least to become as heavy.
    needed = np.cumsum(np.sort(np.maximum(own - (raised - lift), 0)))
    return not 0 < sampling.top_k <= int(np.count_nonzero(needed <= lift))


class BudgetedTargets(TargetCache):
    """Draws targets within a budget. A target is computed only at the position to commit next.

    They are those of `dragon.sampling.privacy`, drawn with the device's private noise: noise known
    to the cloud, or a weight or a certificate that depends on passages, would reveal more than the
    budget allows.
    """

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
        log_p = tempered(bare.weights, self._sampling.temperature)
        return drawn(bare.ids, log_p, self._key, position)

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
        self._verdicts = kept, mixture.total_variation(own, remote)
        return token


class Budgeted(OneWay):
    """One-way on a device with a budget; the cloud follows the same rule as without one.

    What the device writes after it has lost the cloud is not bounded, so it never goes up.
    """

    def __init__(self, session: Session, budget: Budget, key: bytes) -> None:
        super().__init__(session)
        self.targets = BudgetedTargets(session, budget, key)

    @property
    def joinable(self) -> bool:
        """Never: the cloud would be sent what was written without it."""
        return False
