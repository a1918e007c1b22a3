"""The interface between a session and its rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragon.protocol.messages import MAX_WINDOW, Draft, SessionMessage, Work
from dragon.sampling.mixture import Side

if TYPE_CHECKING:
    from dragon.protocol.session import Session


class Rule(ABC):
    """One aggregation mode on one side.

    A rule decides which token a draft carries and when a token is committed. The session it is
    bound to keeps the text, the queues and the membership.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @abstractmethod
    def propose(self, position: int, side: Side) -> int:
        """The token of an own draft drawn from `side`; the decoder is fed it next."""

    @abstractmethod
    def step(self) -> bool:
        """Commit what can be committed while both sides take part; False if nothing can."""

    def may_draft(self, position: int) -> bool:
        """Whether an own draft for `position` is wanted now."""
        session = self.session
        if session.joint and position >= session.limits.horizon:
            return False
        return len(session.queues.own) < max(1, min(session.window, MAX_WINDOW))

    def lookahead(self, position: int) -> Sequence[int]:
        """Tokens expected from `position` on, to be fed ahead in the same forward."""
        return ()

    def work(self, drafting: Work | None) -> Work | None:
        """The decoder's next work; `drafting` is the session's own, if any."""
        return drafting

    def scored(self, work: Work, log_likelihood: float) -> None:
        """Take the result of work without outputs: the log-likelihood of all scored so far."""
        raise AssertionError("this rule asks for no scores")

    def share(self, draft: Draft) -> None:
        self.session.send(draft)

    def receive(self, message: SessionMessage) -> None:
        """Handle a message of the current incarnation; any but a draft is a desync by default."""
        if isinstance(message, Draft):
            self.session.admit(message)
        else:
            self.session.desync()

    def weigh(self, log_h: int) -> None:  # noqa: B027, most modes do not need it
        """Take an upper bound of the cloud's log h, in 1/1024 nats."""

    def late(self, draft: Draft) -> None:
        """Handle a draft of a position that is already committed: a duplicate, or a fault."""
        self.session.desync()

    def stalled(self) -> None:
        """Handle a stall, which is a desync by default."""
        self.session.desync()

    @property
    def told(self) -> int:
        """Device: an upper bound of how many of the first tokens the cloud knows."""
        return max((end for _, end in self.session.intervals()), default=0)

    @property
    def retries(self) -> int:
        """How often the session has waited at this standstill already; each wait doubles."""
        return self.session.membership.resyncs(len(self.session.committed))

    @property
    def joinable(self) -> bool:
        """Device: whether this mode can admit the cloud at the current position."""
        return True

    def restart(self) -> None:
        """A new incarnation begins: discard both sides' drafts."""
        self.session.queues.reset_epochs()
        self.session.drop_drafts()
