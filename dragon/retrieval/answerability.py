"""How likely a passage answers a question, of several signs of it.

The reranker reads both together; cosine and shared words say how near they are. The longer a
passage, the more words it shares by chance, unless it says much beyond the question, which may be
the answer. Two signs speak against it: a name or a number of the question that the passage has not,
and nothing in it of the kind that is asked for.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from dragon.retrieval.lexical import lacking, words

CONSTANTS = (0.45, 4.03, 2.39, -2.56, 1.8, -0.94, -0.25, 0.03)
"""Log-odds a unit of each of `signs`. Logistic regression (Platt, 1999) by bench/answering.py."""

LEAST_LOG_ODDS = -0.7
"""A passage under this does not answer, and takes no part.

A choice between two mistakes, which `python -m bench.answering` shows for other values. Of the
cases that the constants are fitted on, here 4 % of the questions about notes and 28 % of SQuAD
2.0's answerable ones are left without a passage, 52 % of its unanswerable ones and seven in eight
of those about other paragraphs.
"""

WEIGHT, MOST = 0.04, 3.0
"""What a nat of log-odds is worth in score, and how many nats count, either way.

About 1.3 nats of relevance: two opinions of the same thing, of which neither is certain.
"""

_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")
_NUMBER = re.compile(r"\d+")
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
"""What a question may ask for: its word, how questions say so, and how a passage shows it."""


RULES = tuple(
    pattern.pattern for pattern in (_NAME, _NUMBER, *(shows for _, shows in KINDS.values()))
) + tuple(asks for asks, _ in KINDS.values())
"""What `signs` goes by, beside the lengths of things."""


def log_odds(logit: float, cosine: float, coverage: float, question: str, passage: str) -> float:
    """Log-odds that a passage answers a question, nats.

    `logit` is the reranker's, `cosine` that of their embeddings, `coverage` the share of the
    question's words in the passage, which is its text as the embedder sees it.
    """
    return float(signs(logit, cosine, coverage, question, passage) @ np.asarray(CONSTANTS))


def judged(score: float, odds: float) -> float:
    """The score of a passage with what the judgement says of it."""
    return score + WEIGHT * min(max(odds, -MOST), MOST)


def signs(
    logit: float, cosine: float, coverage: float, question: str, passage: str
) -> npt.NDArray[np.float64]:
    """What `log_odds` is made of, float64 [8].

    The three numbers given; the logarithms of the passage's words and of its content words that the
    question lacks, each plus one; how many words of the question's names and numbers the passage
    lacks; 1 if it has nothing of the kind asked for; 1.
    """
    held = words(passage)
    asked = [w for name in names(question) + _NUMBER.findall(question) for w in words(name)]
    missing = sum(word not in held for word in asked)
    length, new = math.log(1 + len(held)), math.log(1 + len(lacking(passage, question)))
    wrong = kind_missing(question, passage)
    return np.array([logit, cosine, coverage, length, new, missing, wrong, 1.0])


def kind_missing(question: str, passage: str) -> bool:
    """Whether the question asks for a kind of thing that the passage plainly has none of."""
    return any(
        re.search(asks, question, re.IGNORECASE) and not shows.search(passage)
        for asks, shows in KINDS.values()
    )


def names(text: str) -> list[str]:
    """The names in a text, as their capitals tell."""
    return [match.group(0) for match in _NAME.finditer(text)]
