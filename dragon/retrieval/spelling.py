"""Corrects misspelt words of a question, unless they are English words.

A word that no document has counts as the documents' word that is one slip away, unless a dictionary
has it: a question about a horse is not one about a house.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spellchecker import SpellChecker

_LEAST = 4  # letters; shorter words are one slip away from too many
_WORD = re.compile(r"(?<![\w'’])[a-zA-Z]+(?![\w'’])")


def doubtful(question: str) -> list[str]:
    """Distinct words of a question that may be misspelt, lower-cased; not short words or names."""
    return list(dict.fromkeys(word.group().lower() for word in _doubtful(question)))


def slips(word: str) -> set[str]:
    """Words that become `word` by one extra, missing or wrong letter, or two swapped ones."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    near = {a + b[1:] for a, b in cuts if b} | {a + b[1] + b[0] + b[2:] for a, b in cuts if b[1:]}
    for letter in ascii_lowercase:
        near.update(a + letter + b for a, b in cuts)
        near.update(a + letter + b[1:] for a, b in cuts if b)
    return near - {word}


def likeliest(counts: Mapping[str, int]) -> str:
    """The most frequent word; the alphabetically first of several."""
    return min(counts, key=lambda word: (-counts[word], word))


def corrected(question: str, near: Mapping[str, str]) -> str:
    """A question with words replaced by those `near` them, unless they are English.

    A question in another language, of whose words fewer than half are English, stays as it is. The
    first call reads the dictionary, which takes a second.
    """
    every = [word.lower() for word in _WORD.findall(question)]
    english = _dictionary().known(every)
    if 2 * sum(word in english for word in every) < len(every):
        return question
    for word in reversed(list(_doubtful(question))):
        said = word.group().lower()
        if said in near and said not in english:
            question = question[: word.start()] + near[said] + question[word.end() :]
    return question


def _doubtful(question: str) -> Iterator[re.Match[str]]:
    for word in _WORD.finditer(question):
        first = not question[: word.start()].strip()
        if len(word.group()) >= _LEAST and (first or word.group().islower()):
            yield word


@lru_cache(maxsize=1)
def _dictionary() -> SpellChecker:
    from spellchecker import SpellChecker

    return SpellChecker(language="en")
