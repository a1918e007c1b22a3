"""Kinds of answers that questions ask for, and what shows one: a date for "when"."""

from __future__ import annotations

import re

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


def kind_missing(question: str, passage: str) -> bool:
    """Whether the question asks for a kind of answer that nothing in the passage matches."""
    return any(
        re.search(asks, question, re.IGNORECASE) and not shows.search(passage)
        for asks, shows in KINDS.values()
    )
