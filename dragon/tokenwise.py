"""Tokenwise aggregation: the device takes every token and sends it back, a round trip a token.

The vanilla distributed RAG of the paper (section 2.2), on the same noise as `coupled`: slow and
obvious, the reference that coupled aggregation must equal token for token.
"""

from __future__ import annotations

from dragon.protocol import Draft, Role, SessionMessage, Target
from dragon.session import Session


class TokenwiseSession(Session):
    """Only the cloud sends distributions, only the device sends tokens, one position at a time."""

    def receive(self, message: SessionMessage) -> None:
        """As in `Session`, and the target on the cloud."""
        if isinstance(message, Target) and self.role is Role.CLOUD:
            self._receive_target(message)
        else:
            super().receive(message)

    def _may_draft(self, position: int) -> bool:
        return not self._own and super()._may_draft(position)

    def _lookahead(self, position: int) -> list[int]:
        return []

    def _send(self, frame: Draft) -> None:
        if self.role is Role.CLOUD:
            super()._send(frame)

    def _judge(self, own: Draft, remote: Draft) -> None:
        token = self._target(own.side, remote.side, own.position)
        self._commit(token)
        self._outbox.append(Target(self.incarnation, own.position, token))
        self._note(own, remote, token)

    def _receive_target(self, target: Target) -> None:
        if not self.joint or self.finished or target.incarnation != self.incarnation:
            return
        if target.position != len(self.committed) or not self._own:
            self._desync()
            return
        self._own.clear()
        self._commit(target.token)
        self._advance()
