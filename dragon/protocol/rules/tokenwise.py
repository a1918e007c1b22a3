"""Token by token, the device computing the target: a round trip per token.

The vanilla distributed RAG of DRAGON (arXiv 2504.11197, section 2.2). Slow and simple, and token
for token the text of `coupled`.
"""

from __future__ import annotations

from dragon.protocol.messages import Draft, SessionMessage, Target
from dragon.protocol.rules.shared_noise import Lockstep
from dragon.sampling.role import Role


class Tokenwise(Lockstep):
    """Only the cloud sends distributions, only the device sends tokens."""

    def share(self, draft: Draft) -> None:
        """The device keeps its drafts."""
        if self.session.role is Role.CLOUD:
            super().share(draft)

    def step(self) -> bool:
        """Device: commit the position once the cloud's draft is here, and send its token."""
        session = self.session
        heads = session.queues.pop_heads()
        if heads is None:
            return False
        own, remote = heads
        token = self.targets.judge(own, remote)
        if session.refuse(token):
            return False
        kept = (own.token == token, remote.token == token)
        session.send(Target(session.incarnation, own.position, token, *kept, Role.DEVICE))
        session.commit(token, own, remote)
        return True

    def receive(self, message: SessionMessage) -> None:
        """Cloud: the token of the position that was drafted last."""
        session = self.session
        if not isinstance(message, Target) or session.role is Role.DEVICE:
            super().receive(message)
        elif message.position != len(session.committed) or not session.queues.own:
            session.desync()
        else:
            session.commit(message.token, session.queues.own.popleft())
            session.queues.own.clear()
            session.advance()
