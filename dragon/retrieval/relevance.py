"""Relevance of a line to a question, in nats, on one scale for both sides.

It is the log-odds that the line answers, from a logistic regression over the judge's logit, the
share of the question's words that other lines have and it lacks, and the cosine of their
embeddings. So a softmax weighs the lines of one side, and the logsumexp of each side's relevance
weighs the sides.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dragon.retrieval import lexical, query_parsing

# Fitted by training.calibrate on questions about ten documents at once, which the judge was not
# trained on.
LOGIT, LACKING, COSINE, BIAS = 0.66, -3.13, 9.34, -4.97
"""Weights of the judge's logit, of the share of the question's words that only other lines have,
and of the cosine of question and line; and the intercept."""

LEAST = -2.0
"""The least log-odds of a line that counts as an answer."""

NAMED = 2.0
"""How many nats below `LEAST` a line may be if it has what a question names, such as a code."""

BESIDE = 0.8
"""How many nats below the likeliest a line may be and still answer beside it."""

AFTER = 2.5
"""How many nats more likely a line is next to the lines that the last reply came from.

Of 171 follow-ups 0.79 find their line first without it, 0.84 with 1.5 to 4.
"""

PUBLIC_LEAST = -0.5
"""`LEAST` for public lines: in a corpus about everything, something is always near."""

LOWEST, HIGHEST = -6.0, 12.0
"""The range of relevance, nats."""

BARE_RELEVANCE = -4.0
"""Relevance, in nats, of the bare prompt: the only row of a side without an answer."""

SLOPE = 8.0
"""Nats per unit of cosine in a text to continue, and on a running text, until it is calibrated.

With SmolLM2-135M on WikiText-2, whose nearest passages are almost equally near, equal weights were
the best, and 8 cost 0.0010 +- 0.0022 nats per token. Where one side's are far off, 8 tells them
apart.
"""

WORDS = 0.25
"""Score of a sentence with every word of the question (lexical.coverage), in units of cosine.

With it the best sentence answers 70 % of SQuAD's questions, with the cosine alone 61 %.
"""


@dataclass(frozen=True)
class Hit:
    """A chunk found by a search.

    `id` is the chunk's, `document` and `title` are its document's. A candidate's `score` combines
    cosine and share of the query's words; that of a line that the judge has read is the probability
    that it answers, and `relevance` the log-odds, in nats. `vector` float32 [dim] is its embedding,
    `context` what it stands under (`chunking.ChunkSentence`), or else its document's title. It
    counts as having the words of what the document as a whole is `about`.
    """

    id: int
    document: str
    title: str
    text: str
    score: float
    relevance: float
    context: str = field(default="", kw_only=True)
    about: str = field(default="", kw_only=True)
    vector: npt.NDArray[np.float32] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )


def log_odds(logit: float, lacking: float, cosine: float) -> float:
    """The log-odds that a line answers; `lacking` as `lexical.lacking`."""
    return LOGIT * logit + LACKING * lacking + COSINE * cosine + BIAS


def probability(odds: float) -> float:
    """The probability for log-odds in nats: the score of a line that was judged."""
    return 1.0 / (1.0 + math.exp(-min(max(odds, LOWEST), HIGHEST)))


def relevance(score: float) -> float:
    """Relevance in nats of a line with this score: the log-odds of a probability."""
    if not 0.0 < score < 1.0:
        return LOWEST if score <= 0.0 else HIGHEST
    return min(max(math.log(score / (1.0 - score)), LOWEST), HIGHEST)


def scale_of(embedder: str, judge: str) -> str:
    """Fingerprint of the scale and of the models it was fitted for; both sides must agree on it."""
    rules = (query_parsing.COURTESIES, lexical.RULES, query_parsing.RULES)
    fitted = LOGIT, LACKING, COSINE, BIAS, LEAST, NAMED, BESIDE, AFTER, PUBLIC_LEAST
    judged = (*fitted, LOWEST, HIGHEST, BARE_RELEVANCE, judge, rules)
    scale = (WORDS, embedder, judged)
    return hashlib.sha256(repr(scale).encode()).hexdigest()[:32]
