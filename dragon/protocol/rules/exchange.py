"""Token by token, each side computing the target: half a round trip a token.

Slow and obvious, and token for token the text of `coupled`.
"""

from __future__ import annotations

from dragon.protocol.rules.lockstep import Lockstep


class Exchange(Lockstep):
    """Both sides send the distribution of a position and wait for the other's."""

    def step(self) -> bool:
        """Commit the position once both drafts of it are here."""
        heads = self.session.queues.pop_heads()
        if heads is None:
            return False
        self.session.settle(*heads, self._targets.judge(*heads))
        return True
