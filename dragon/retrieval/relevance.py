"""How relevant a document is to a question, in nats, on one scale for both sides.

Both sides turn cosine into relevance with the same constants, so that a softmax over documents
weighs the documents of one side, and the log-sum of each side's relevance weighs the sides.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SLOPE = 16.0
"""Nats a unit of cosine."""

OFFSET = 0.25
"""The cosine that counts for nothing either way: relevance 0."""

LOWEST, HIGHEST = -4.0, 10.0
"""The range relevance is clamped to, nats."""

MINIMUM_COSINE = 0.2
"""A document under this is not relevant: it takes no part."""

BARE_RELEVANCE = -4.5
"""The relevance of the bare prompt, the one row of a side that has nothing relevant, nats."""


@dataclass(frozen=True)
class Hit:
    """A chunk that a search found.

    `id` is the chunk's; `document` and `title` are its document's; `score` is the cosine with the
    query, `relevance` the same in nats.
    """

    id: int
    document: str
    title: str
    text: str
    score: float
    relevance: float


def relevance(cosine: float) -> float:
    """Relevance in nats of a document whose embedding has this cosine with the query's."""
    return min(max(SLOPE * (cosine - OFFSET), LOWEST), HIGHEST)


def fingerprint() -> str:
    """Names this scale: both sides must have the same."""
    scale = (SLOPE, OFFSET, LOWEST, HIGHEST, MINIMUM_COSINE, BARE_RELEVANCE)
    return hashlib.sha256(repr(scale).encode()).hexdigest()
