"""Lexical matching: tokenizing, stemming and the share of a question's words in a passage.

Both sides search an SQLite FTS5 table with the tokenizer `unicode61 remove_diacritics 2`, which
splits text as `words` does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from typing import TypeVar

TOKENIZER = "unicode61 remove_diacritics 2"

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 64
_LONG = 10  # letters
_IDENTIFIER = re.compile(r"[a-z]+\d{2,}[a-z\d]*")
_ENDINGS = ("ing", "ed", "es", "s", "e")
# Words of nearly every English sentence do not discriminate between passages.
_STOP_WORDS = frozenset(
    """
    a about after all am an and any are as at be been before but by can could did do does for from
    had has have he her his how i if in into is it its many me most much my no not of on or our
    shall she should so some such than that the their them then there these they this those to
    under up us was we were what when where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905
)
RULES = (_WORD.pattern, _IDENTIFIER.pattern, _MOST_WORDS, _LONG, _ENDINGS, *sorted(_STOP_WORDS))
"""The rules behind `coverage`, part of the scale's fingerprint."""
# k of Cormack, Clarke and Buettcher (SIGIR 2009), who found that it matters little.
_RANK_OFFSET = 60

Key = TypeVar("Key", bound=Hashable)


def words(text: str) -> list[str]:
    """The words of a text in order, lower-cased, without diacritics."""
    apart = unicodedata.normalize("NFD", text)
    plain = "".join(each for each in apart if not unicodedata.combining(each))
    return _WORD.findall(unicodedata.normalize("NFC", plain).lower())


def content_words(question: str) -> list[str]:
    """The distinct words of a question that are not stop words; at most 64."""
    content = dict.fromkeys(word for word in words(question) if word not in _STOP_WORDS)
    return list(content)[:_MOST_WORDS]


def match_expression(question: str) -> str:
    """An FTS5 query for passages with any content word of a question; empty if it has none."""
    return " OR ".join(f'"{word}"' for word in content_words(question))


def coverage(question: str, passage: str) -> float:
    """The share, 0 to 1, of a question's content words that a passage has, compared by stem.

    Words weigh by their length, up to ten letters, since long ones are rarer and more informative.
    Unlike BM25, whose scale depends on the other passages, it is a function of the two texts alone
    and so comparable between sides.
    """
    asked = {stem(word): min(len(word), _LONG) for word in content_words(question)}
    if not asked:
        return 0.0
    found = {stem(word) for word in words(passage)}
    return sum(size for word, size in asked.items() if word in found) / sum(asked.values())


def identifiers(text: str) -> list[str]:
    """The words of a text that name one thing, such as B105 and E28; not the 19th, or CO2."""
    return [word for word in words(text) if _IDENTIFIER.fullmatch(word)]


def stem(word: str) -> str:
    """A word without a plural or verb ending: "leave" and "leaves" both become "leav".

    The fitted constants of relevance and answerability depend on these rules.
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            return word.removesuffix(ending)
    return word


def fused(*rankings: Sequence[Key]) -> list[Key]:
    """Reciprocal rank fusion of rankings, best first; ties in order of first appearance."""
    scores: dict[Key, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (_RANK_OFFSET + rank)
    return sorted(scores, key=lambda key: -scores[key])
