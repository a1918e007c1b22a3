"""Finding by words: what a question's words are, and how many of them a passage has.

Both sides look words up in an SQLite FTS5 table with the tokenizer `unicode61 remove_diacritics 2`,
which cuts a text into the words of `words`.
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
_ENDINGS = ("ing", "ed", "es", "s")
# What nearly every English sentence has says nothing about which of them answers.
_STOP_WORDS = frozenset(
    """
    a about after all am an and any are as at be been before but by can could did do does for from
    had has have he her his how i if in into is it its many me most much my no not of on or our
    shall she should so some such than that the their them then there these they this those to
    under up us was we were what when where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905
)
RULES = (_WORD.pattern, _MOST_WORDS, _LONG, _ENDINGS, *sorted(_STOP_WORDS))
"""What `coverage` goes by."""
# Of Cormack, Clarke and Buettcher (SIGIR 2009), where it made little difference.
_RANK_OFFSET = 60

Key = TypeVar("Key", bound=Hashable)


def words(text: str) -> list[str]:
    """The words of a text in order, without case and accents."""
    apart = unicodedata.normalize("NFD", text)
    plain = "".join(each for each in apart if not unicodedata.combining(each))
    return _WORD.findall(unicodedata.normalize("NFC", plain).lower())


def content_words(question: str) -> list[str]:
    """The words of a question that tell passages apart, once each; at most 64."""
    telling = dict.fromkeys(word for word in words(question) if word not in _STOP_WORDS)
    return list(telling)[:_MOST_WORDS]


def match_expression(question: str) -> str:
    """FTS5's query for passages with any of a question's words; empty if it has none."""
    return " OR ".join(f'"{word}"' for word in content_words(question))


def coverage(question: str, passage: str) -> float:
    """The share, 0 to 1, of a question's words that a passage has, in any of their forms.

    Words count by their length, up to ten letters: long ones are rarer and tell more. A function of
    the two texts alone, unlike BM25, whose scale depends on the other passages: so that it means
    the same on both sides.
    """
    asked = {stem(word): min(len(word), _LONG) for word in content_words(question)}
    if not asked:
        return 0.0
    found = {stem(word) for word in words(passage)}
    return sum(size for word, size in asked.items() if word in found) / sum(asked.values())


def lacking(text: str, other: str) -> list[str]:
    """The content words of a text that another has in none of their forms; at most 64."""
    found = {stem(word) for word in words(other)}
    return [word for word in content_words(text) if stem(word) not in found]


def stem(word: str) -> str:
    """A word without the ending of a plural or of a verb's form."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            return word.removesuffix(ending)
    return word


def fused(*rankings: Sequence[Key]) -> list[Key]:
    """Rankings, best first, as one: reciprocal rank fusion. Ties stand as they were first seen."""
    scores: dict[Key, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (_RANK_OFFSET + rank)
    return sorted(scores, key=lambda key: -scores[key])
