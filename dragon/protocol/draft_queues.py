"""Both sides' drafts that are not committed yet."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from dragon.protocol.committed_text import CommittedText
from dragon.protocol.messages import MAX_WINDOW, Draft


class Admission(Enum):
    """What happens to a draft of the other side."""

    QUEUED = auto()
    STALE = auto()
    LATE = auto()  # its position is already committed
    DESYNC = auto()


class DraftQueues:
    """Each queue is contiguous from the first uncommitted position.

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

    def admit(self, draft: Draft, text: CommittedText, length: int) -> Admission:
        """Queue a draft of the other side if it follows what this side knows.

        The prefix is checked before the epoch. In the other order both sides would wait forever
        after a fault: a side that has diverged raises its epoch, and the other then takes it for a
        late one.
        """
        # A sender cannot have committed more than this side: its earlier drafts came first.
        if draft.committed > length or draft.checksum != text.checksum(draft.committed):
            return Admission.DESYNC
        if draft.epoch < self.remote_epoch:
            return Admission.STALE
        if draft.epoch > self.remote_epoch or len(self.remote) >= MAX_WINDOW:
            return Admission.DESYNC
        # This side has also seen every draft between the sender's text and this one.
        if draft.position not in (draft.committed, self._follows):
            return Admission.DESYNC
        self._follows = draft.position + 1
        if draft.position < length:
            return Admission.LATE
        if draft.position != length + len(self.remote):
            return Admission.DESYNC
        self.remote.append(draft)
        return Admission.QUEUED

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
        """Drop all drafts."""
        self.own.clear()
        self.remote.clear()

    def reset_epochs(self) -> None:
        """Restart the epochs, in a new incarnation."""
        self.own_epoch = self.remote_epoch = 0
        self._follows = None
