"""A judge that reads nothing, for when it does not matter which lines answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dragon.retrieval.judge import Line, Logits


class NoJudge:
    """Scores all lines alike, and holds that every message needs a document."""

    fingerprint = "none"

    def logits(self, question: str, passages: Sequence[Sequence[Line]]) -> list[Logits]:
        """Zeros."""
        return [np.zeros(len(passage)) for passage in passages]

    def needless(self, message: str) -> float:
        """Every message is a question."""
        return -1.0

    def state(self, message: str) -> None:
        """Nothing is known of a message."""
