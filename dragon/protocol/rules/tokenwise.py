"""Aggregation token by token, without drafts: what the paper's speculation is measured against.

Both are slow and obvious, on the same noise as `coupled`, which must equal them token for token.
"""

from __future__ import annotations

from dragon.protocol.messages import Draft, Role, SessionMessage, Target
from dragon.protocol.session import Session


class ExchangeSession(Session):
    """Both sides send the distribution of a position and wait for the other's: half a round trip.

    Each computes the token itself, so that nobody needs to send it.
    """

    def _may_draft(self, position: int) -> bool:
        return not self._own and super()._may_draft(position)

    def _lookahead(self, position: int) -> list[int]:
        return []


class TokenwiseSession(ExchangeSession):
    """Only the cloud sends distributions, only the device sends tokens: a round trip a token.

    The vanilla distributed RAG of the paper (section 2.2).
    """

    def receive(self, message: SessionMessage) -> None:
        """As in `Session`, and the target on the cloud."""
        if isinstance(message, Target) and self.role is Role.CLOUD:
            self._receive_target(message)
        else:
            super().receive(message)

    def _send(self, frame: Draft) -> None:
        if self.role is Role.CLOUD:
            super()._send(frame)

    def _judge(self, own: Draft, remote: Draft) -> None:
        token = self._decided(own, remote)
        kept = (own.token == token, remote.token == token)
        self._outbox.append(Target(self.incarnation, own.position, token, *kept, Role.DEVICE))
        self._commit(token, own, remote)

    def _receive_target(self, target: Target) -> None:
        if not self.joint or self.finished or target.incarnation != self.incarnation:
            return
        if target.position != len(self.committed) or not self._own:
            self._desync()
            return
        own = self._own.popleft()
        self._own.clear()
        self._commit(target.token, own)
        self._advance()
