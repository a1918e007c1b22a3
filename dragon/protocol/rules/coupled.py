"""Coupled aggregation: both sides send their drafts, and each computes every target.

Nobody waits for a verdict, and no target crosses the link. At T = 1 drafts agree with a probability
of at least (1 - TV) / (1 + TV) of the two sides' distributions, and where they agree, that token is
the target, unless the mixture is truncated. Independent drafts, as in Algorithm 1, are rejected
even where both sides hold the same distribution.

The text is a function of the seed, the distributions and which side took part when. Since these
alone define a target, a side may draft by any rule: one that is behind runs the other's drafts, so
that an answer can be faster than its slower side decodes.
"""

from __future__ import annotations

from dragon.protocol.rules.shared_noise import CatchUp


class Coupled(CatchUp):
    """The fastest mode, for a trusted peer: the device's distributions leave it."""
