"""Whose matter a question is: that of the person who asks, or anybody's.

"When does the lease end?" is for the person's own documents. "How tall does a giraffe get?" is
anybody's, though a note on a fence may seem to answer it. A logistic regression over the packaged
embedder's vectors tells the two apart, and from languages that it has not learnt to read
(`training.whose`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from dragon.models import WHOSE
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256, TextEmbedder

WORLD = 0.9
"""What a nat by which a question is likelier anybody's takes from a line of one's own, nats.

Fitted by `training.whose`, beside the line's own log-odds.
"""


def own_odds(question: str, embedder: TextEmbedder) -> float:
    """The log-odds, nats, that only one's own documents can answer.

    Near 0 in another language than English; 0 with another embedder.
    """
    if embedder.fingerprint != PACKAGED_WEIGHTS_SHA256:
        return 0.0
    weights = _weights()
    own, other, unread = weights[:, :-1] @ embedder.embed([question])[0] + weights[:, -1]
    return float(np.logaddexp(own, unread) - np.logaddexp(other, unread))


def own_prior(question: str, embedder: TextEmbedder) -> float:
    """What to add to the log-odds of one's own lines, nats: at most 0.

    That a question is about one's own matters does not make a line answer it.
    """
    return min(0.0, WORLD * own_odds(question, embedder))


@cache
def _weights() -> npt.NDArray[np.float32]:
    """float32 [3, dim + 1]: one's own, anybody's, unread; the intercepts last."""
    weights: npt.NDArray[np.float32] = np.load(WHOSE)
    return weights
