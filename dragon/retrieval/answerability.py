"""Answerability: the probability that a passage answers a question, by logistic regression.

Features: the reranker's logit on the pair, the embeddings' cosine, the share of the question's
words in the passage, and lengths, since a long passage shares more words by chance, while words
beyond the question's may be the answer. Two features count against a passage: names or numbers of
the question that it lacks, and the lack of anything of the kind asked for (a date for "when").
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from dragon.retrieval.lexical import lacking, numbers, words

CONSTANTS = (0.45, 4.03, 2.39, -2.56, 1.8, -0.94, -0.25, 0.03)
"""Log-odds per unit of `features`, fitted by bench/tools/answering.py as in Platt (1999)."""

LEAST_LOG_ODDS = -0.9
"""Threshold below which a passage is dropped as not answering, nats.

It trades missed answers against false ones (`python -m bench.answering` shows other values). On the
cases the coefficients are fitted on, this one leaves without a passage 3 % of the questions about
notes, 47 % of SQuAD 2.0's unanswerable ones, and five in six of those about other paragraphs. A
stricter one declines many questions that people ask of their own documents and that these answer.
"""

WEIGHT, MOST = 0.04, 3.0
"""Score per nat of log-odds, and the bound on the log-odds that count, either way.

A nat is worth about 1.3 nats of relevance: score and log-odds both estimate how well a passage
fits, and neither is certain.
"""

_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")
_TIME = re.compile(
    r"\b(?:1\d{3}|20\d\d|January|February|March|April|May|June|July|August|September|October"
    r"|November|December|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|century|\d{1,2}[:.]\d\d|noon"
    r"|midnight|mornings?|evenings?|nights?|o'clock|tomorrow|today|spring|summer|autumn|winter|years?"
    r"|days?|weeks?|months?|when|after|before|during|until|since|while)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty"
    r"|fifty|hundred|thousand|million|billion|dozen|half|several|many|few|both|no|none|once|twice)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"(?<!^)\b[A-Z][a-z]+|^(?!(?:The|An?|It|This|That|These|There|In|On|At|To|For|As|But|And)\b)[A-Z]"
)
_REASON = re.compile(
    r"\b(?:because|since|so|for|to|due|as|therefore|thus|reason|cause[ds]?|in order|after|led)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(?:in|at|near|from|to|on|under|behind|beside|by|between|over|into)\b")

KINDS = {
    "When": (r"\b(?:when|(?:what|which) (?:year|date|day|month|century))\b", _TIME),
    "How many": (r"\bhow (?:many|much|long|old|far|high|tall|often)\b", _QUANTITY),
    "Who": (r"\b(?:who|whom|whose)\b", _PERSON),
    "Why": (r"\bwhy\b", _REASON),
    "Where": (r"\bwhere\b", _PLACE),
}
"""Kinds of answers: name, pattern of questions asking for one, pattern of passages with one."""


RULES = tuple(
    pattern.pattern for pattern in (_NAME, *(shows for _, shows in KINDS.values()))
) + tuple(asks for asks, _ in KINDS.values())
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
    """The features of `log_odds`, float64 [8].

    The three arguments; log(1 + n) of the passage's words and of its content words that the
    question lacks; the number of words of the question's names and numbers that neither it nor
    `about` has; 1 if it has nothing of the kind asked for; 1.
    """
    held = words(passage)
    asked = [word for name in names(question) for word in words(name)] + numbers(question)
    known = {*held, *words(about)}
    missing = sum(word not in known for word in asked)
    length, new = math.log(1 + len(held)), math.log(1 + len(lacking(passage, question)))
    mismatch = kind_missing(question, passage)
    return np.array([logit, cosine, coverage, length, new, missing, mismatch, 1.0])


def kind_missing(question: str, passage: str) -> bool:
    """Whether the question asks for a kind of answer that nothing in the passage matches."""
    return any(
        re.search(asks, question, re.IGNORECASE) and not shows.search(passage)
        for asks, shows in KINDS.values()
    )


def names(text: str) -> list[str]:
    """The names in a text, recognised by capitals."""
    return [match.group(0) for match in _NAME.finditer(text)]
