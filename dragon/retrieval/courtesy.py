"""Strips greetings and courtesies from a question.

"Hi! Could you tell me where the tent is, please?" asks about a tent: a passage should score neither
better for containing "tell" nor worse for lacking it.
"""

from __future__ import annotations

import re

from dragon.retrieval.lexical import content_words

_ASKS = r"(?:can|could|would|will) you (?:please |kindly )?|please |pls |plz |kindly "
_BEFORE = re.compile(
    rf"""\A\s*(?:
      (?:hi|hello|hey|greetings|good\ (?:morning|afternoon|evening))(?:\ there)?[,!.:]
    | (?:sorry|excuse\ me|ok|okay|well|so|and|thanks|please|pls)[,!.:]
    | (?:i\ have\ a|just\ a|a|one)?\ ?(?:quick\ |short\ )?question[,.:!]
    | just\ to\ be\ sure,
    | (?:{_ASKS.replace(" ", chr(92) + " ")})?(?:tell|remind)\ me[,:]?(?=\s)
    | (?:do|does)\ (?:you|anybody|anyone)\ (?:know|remember)(?=\s)
    | (?:do\ you\ have\ )?any\ idea,?(?=\s)
    | i\ (?:(?:just\ )?forgot|wonder|can't\ remember|(?:want|need|would\ like)\ to\ know)(?=\s)
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)
# Match a run of spaces from its start only, or matching takes quadratic time.
_AFTER = re.compile(
    r"(?<![\s,.!?])(?:[\s,.!?]+(?:please|pls|plz|(?:please|can you|could you) tell me)"
    r"|\s*[,.!?][\s,.!?]*(?:(?:many )?thanks(?: a lot)?|thank you|cheers|i forgot|do you know)"
    r")[\s.!?]*$",
    re.IGNORECASE,
)
_MOST = 4  # at either end

RULES = (_BEFORE.pattern, _AFTER.pattern, _MOST)
"""The patterns behind `plain`, part of the scale's fingerprint."""


def plain(question: str) -> str:
    """The question without courtesies, or all of it if no content word would remain."""
    left = _left(question)
    return left if content_words(left) else question


def asks_nothing(message: str) -> bool:
    """Whether a message is nothing but courtesies or has no content word."""
    return not content_words(_left(f"{message}!"))


def _left(question: str) -> str:
    left = question
    for _ in range(_MOST):
        left = _BEFORE.sub("", left, count=1)
        left = _AFTER.sub("?", left)
    return left
