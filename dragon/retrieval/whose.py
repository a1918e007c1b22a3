"""Tells whose matter a question is: the asker's own, anybody's, or some of both.

"When does the lease end?" is for the person's own documents. "How tall does a giraffe get?" is
anybody's, though a note on a fence may seem to answer it. "What is the capital of the country I fly
to?" needs a line of one's own first. A logistic regression over the judge's state for a question
tells them apart, and from languages that the judge has not learnt to read (`training.whose`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from dragon.models import WHOSE
from dragon.retrieval.judge import TextJudge

WORLD = 0.47
"""How many nats a line of one's own loses per nat of log-odds that a question is anybody's.

Fitted by `training.whose`, beside the line's own log-odds.
"""


@dataclass(frozen=True)
class Whose:
    """Log-odds, nats, that only one's own documents answer a question, and that `both` must."""

    own: float = 0.0
    both: float = -math.inf

    @property
    def prior(self) -> float:
        """Nats to add to the log-odds of one's own lines, at most 0.

        That a question is about one's own matters does not make a line answer it.
        """
        return min(0.0, WORLD * self.own)

    @property
    def leans(self) -> bool:
        """Whether it is answered by the world's documents, once one's own say what it means."""
        return self.both > 0.0


def whose(question: str, judge: TextJudge) -> Whose:
    """Whose matter a question is; unknown in other languages than English or with another judge."""
    fitted_to, weights = _fitted()
    state = judge.state(question) if judge.fingerprint == fitted_to else None
    if state is None:
        return Whose()
    own, world, both, unread = (weights[:, :-1] @ state + weights[:, -1]).astype(np.float64)
    return Whose(
        own=float(np.logaddexp(own, unread) - np.logaddexp.reduce([world, both, unread])),
        both=float(both - np.logaddexp.reduce([own, world, unread])),
    )


@cache
def _fitted() -> tuple[str, npt.NDArray[np.float32]]:
    """The judge's fingerprint, and weights [4, 2 * width + 1]: one's own, world, both, unread."""
    with np.load(WHOSE) as arrays:
        return str(arrays["judge"]), arrays["weights"]
