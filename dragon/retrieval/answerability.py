"""Answerability: the probability that a passage answers a question, by logistic regression.

Features: the reranker's logit on the pair, the embeddings' cosine, the share of the question's
words in the passage, and lengths, since a long passage shares more words by chance, while words
beyond the question's may be the answer. Names or numbers of the question that it lacks count
against a passage.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from dragon.retrieval.lexical import lacking, numbers, words

CONSTANTS = (0.47, 4.21, 2.28, -2.41, 1.89, -0.98, -0.8)
"""Log-odds per unit of `features`, fitted by bench/tools/answering.py as in Platt (1999)."""

LEAST_LOG_ODDS = -0.9
"""Threshold below which a passage is dropped as not answering, nats.

It trades missed answers against false ones (`python -m bench.answering` shows other values). On the
cases the coefficients are fitted on, this one leaves without a passage 4 % of the questions about
notes, 48 % of SQuAD 2.0's unanswerable ones, and five in six of those about other paragraphs. A
stricter one declines many questions that people ask of their own documents and that these answer.
"""

WEIGHT, MOST = 0.04, 3.0
"""Score per nat of log-odds, and the bound on the log-odds that count, either way.

A nat is worth about 1.3 nats of relevance: score and log-odds both estimate how well a passage
fits, and neither is certain.
"""

_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")
RULES = (_NAME.pattern,)
"""The patterns behind `features`, part of the scale's fingerprint."""


def log_odds(
    logit: float, cosine: float, coverage: float, question: str, passage: str, about: str = ""
) -> float:
    """Log-odds that a passage answers a question, nats.

    `logit` is the reranker's, `cosine` that of their embeddings, `coverage` the share of the
    question's words in the passage, whose text is the one that the embedder sees, or in what its
    document is `about`.
    """
    seen = features(logit, cosine, coverage, question, passage, about)
    return float(seen @ np.asarray(CONSTANTS))


def judged(score: float, odds: float) -> float:
    """A passage's score adjusted by the log-odds that it answers."""
    return score + WEIGHT * min(max(odds, -MOST), MOST)


def features(
    logit: float, cosine: float, coverage: float, question: str, passage: str, about: str = ""
) -> npt.NDArray[np.float64]:
    """The features of `log_odds`, float64 [7].

    The three arguments; log(1 + n) of the passage's words and of its content words that the
    question lacks; the number of words of the question's names and numbers that neither it nor
    `about` has; 1.
    """
    held = words(passage)
    asked = [word for name in names(question) for word in words(name)] + numbers(question)
    known = {*held, *words(about)}
    missing = sum(word not in known for word in asked)
    length, new = math.log(1 + len(held)), math.log(1 + len(lacking(passage, question)))
    return np.array([logit, cosine, coverage, length, new, missing, 1.0])


def names(text: str) -> list[str]:
    """The names in a text, recognised by capitals."""
    return [match.group(0) for match in _NAME.finditer(text)]
