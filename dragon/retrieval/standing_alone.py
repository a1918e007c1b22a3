"""Makes a question of a chat stand alone: what it leaves out is taken from those before it.

"And when?" after "Who fixes the leaking tap?" is searched as "and when? (fixes leaking tap)". The
words in brackets ask nothing, so the earlier question is not answered again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragon.retrieval.courtesy import plain
from dragon.retrieval.lexical import content_words, identifiers, lacking
from dragon.retrieval.query_parsing import POINTS_BACK

_LEANS = re.compile(
    r"\A(?:and|but|or|so|also|(?:what|how) about|what if|und|aber|oder|auch|was ist mit"
    r"|¿?(?:y|pero|o|qué (?:hay de|tal)))\b",
    re.IGNORECASE,
)
_MOST = 12  # the most words taken over


def leans(question: str) -> bool:
    """Whether a question omits what it is about: it refers back, or has no content word."""
    back = _LEANS.search(question) or POINTS_BACK.search(question)
    return bool(back or not content_words(question)) and not identifiers(question)


def standing_alone(question: str, earlier: Sequence[str]) -> str:
    """Add to a leaning question the words it lacks of those before it, back to one that stands.

    A question that does not lean is returned unchanged.
    """
    if not leans(plain(question)):
        return question
    words: dict[str, None] = {}
    for before in reversed(earlier):
        words |= dict.fromkeys(lacking(plain(before), question))
        if not leans(before):
            break
    return f"{plain(question)} ({' '.join(list(words)[:_MOST])})" if words else question
