"""Whether words of a question are those of a cell, a column or a title, in one form or another."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from app.documents.tables import wording
from dragon.retrieval.lexical import content_words, stem, words

_SHORT = {"min": "minimum", "max": "maximum"}
_ALIKE, _APART = 5, 3  # letters that two words begin with, at least, and end with, at most


class Words:
    """The words of a question: those `left` are not accounted for, `cells` are those of cells."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = dict.fromkeys(content_words(text))
        self.cells: set[str] = set()
        self.unsure = False  # whether a word may be a cell or something else

    def take(self, taken: Iterable[str]) -> None:
        for word in taken:
            self.left.pop(word, None)

    def names(self, spelt: Sequence[str]) -> bool:
        """Whether words name a cell, and not by chance: "m" only where the question has "M".

        "Max" and "May" are names where they are capitalised behind other words; else it is unsure.
        """
        if len(spelt) > 1:
            return True
        (word,) = spelt
        if len(word) < 3:
            return bool(re.search(rf"(?<![\w'’]){re.escape(word.upper())}(?!\w)", self.text))
        if re.search(rf"\w\W+(?-i:{re.escape(word.capitalize())})\b", self.text):
            return True
        self.unsure |= word in wording.OPERATION_WORDS
        return bool(content_words(word)) and word not in wording.OPERATION_WORDS


def spellings(cell: str, column: str, stems: Collection[str]) -> Iterator[tuple[str, ...]]:
    """A cell's words; and its first one, if that is a name of its own, and not a column's.

    `stems` are those of all columns' names.
    """
    spelt = tuple(words(cell))
    if spelt and len(spelt) <= 6:
        yield spelt
    alone = len(spelt) > 1 and len(spelt[0]) > 2 and cell[:1].isupper()
    if alone and stem(spelt[0]) not in stems and not named_by(spelt[0], column):
        yield spelt[:1]


def together(spelt: Sequence[str], tokens: Sequence[str], free: Sequence[bool]) -> Sequence[int]:
    """The places of a cell's words in a question, in succession; none if they are not there."""
    for at in range(len(tokens) - len(spelt) + 1):
        place = range(at, at + len(spelt))
        if tuple(tokens[at : at + len(spelt)]) == tuple(spelt) and all(free[n] for n in place):
            return place
    return ()


def scattered(spelt: Sequence[str], tokens: Sequence[str], free: Sequence[bool]) -> Sequence[int]:
    """The places of a cell's words in a question, in other forms and any order; or none.

    "How many costumes?" asks for the cell "costume", "who replaced the battery?" for "battery
    replaced".
    """
    places: list[int] = []
    for word in spelt:
        left = (n for n, is_free in enumerate(free) if is_free and n not in places)
        if (at := next((n for n in left if _one_stem(word, tokens[n])), -1)) < 0:
            return ()
        places.append(at)
    return places


def title_in(tokens: Sequence[str], title: Sequence[str]) -> list[range]:
    """Where a question has several words of a title in succession."""
    found: list[range] = []
    for start in range(len(title)):
        for at in range(len(tokens)):
            pairs = takewhile(
                lambda pair: _one_stem(*pair), zip(title[start:], tokens[at:], strict=False)
            )
            if (length := sum(1 for _ in pairs)) > 1:
                found.append(range(at, at + length))
    return found


def has_word(cell: str, word: str) -> bool:
    return any(_one_stem(each, word) for each in words(cell))


def has_other_forms(spelt: Sequence[str], columns: Mapping[int, Collection[str]]) -> bool:
    """Whether a cell may be named in other forms: "Day 2", "Tom Hill" and "on call" may not."""
    cells = [cell for each in columns.values() for cell in each]
    if any(re.search(r"\d|\s[A-Z]", cell) for cell in cells):
        return False
    return all(content_words(word) for word in spelt)


def _one_stem(word: str, token: str) -> bool:
    return word == token or (min(len(word), len(token)) >= _ALIKE and stem(word) == stem(token))


def parts_of(name: str) -> list[str]:
    """The words of a column's name."""
    return words(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name))


def named_by(word: str, name: str, parts: Sequence[str] = ()) -> bool:
    """Whether a word is one of a column's name, or of the `parts` of it that tell it from others.

    In "Phone ext." the word "extension" is cut short.
    """
    cut = (each.lower() for each in re.findall(r"([^\W\d_]{3,})\.", name))
    return any(alike(word, part) for part in parts or parts_of(name)) or any(
        map(word.startswith, cut)
    )


def alike(word: str, other: str) -> bool:
    """Whether two words have one stem: "supplies" and "supplier", too."""
    word, other = (_SHORT.get(each, each) for each in (word, other))
    begun = max(_ALIKE, max(len(word), len(other)) - _APART)
    return stem(word) == stem(other) or word[:begun] == other[:begun]
