"""Coupled aggregation: both sides send their drafts, and each computes every target.

Nobody waits for a verdict, and no target crosses the link.
"""

from __future__ import annotations

from dragon.protocol.rules.shared_noise import CatchUp


class Coupled(CatchUp):
    """The fastest mode, for a trusted peer: the device's distributions leave it."""
