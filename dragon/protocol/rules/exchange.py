"""Token by token, both sides computing the target: half a round trip per token.

Slow and simple, and token for token the text of `coupled`.
"""

from __future__ import annotations

from dragon.protocol.rules.shared_noise import Lockstep


class Exchange(Lockstep):
    """Both sides send the distribution of a position and wait for the other's."""
