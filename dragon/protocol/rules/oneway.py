"""One-way aggregation: the cloud's distributions come down, only tokens of the answer go up.

The cloud drafts ahead and sends its drafts; nothing in them is private. The device holds both
distributions and computes each target alone, the same one as in `coupled`. If the target is the
cloud's draft, the device only acknowledges how far the text has come; if not, it sends the token.
So the cloud drafts and the device verifies, as in speculative decoding.

While the cloud's largest weight is known and its distribution is not yet, the device may still be
able to determine the target (`dragon.sampling.certificate`). It commits such a token at once. The
cloud's draft of that position may already be in flight: the device accepts it when it comes, as the
cloud accepts the token, and both count it as rejected or not.

The device sends these tokens only once it needs the cloud, for a later position that it cannot
determine itself: if it determines the rest of an answer, none of that rest goes up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragon.protocol.messages import MAX_WINDOW, Correction, Draft, SessionMessage
from dragon.protocol.rules.shared_noise import CatchUp
from dragon.sampling.certificate import certified
from dragon.sampling.role import Role

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
        """As in `Rule`."""
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
        """Cloud: how far the text has come, and how it continues."""
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
        """As in `Rule`; both sides know the text so far."""
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
