"""Lexical matching: tokenizing, stemming, spelling, the share of a question's words in a passage.

Both sides search an SQLite FTS5 table with the tokenizer `unicode61 remove_diacritics 2`, which
splits text as `words` does. A word that no document has counts as the documents' word that is one
slip away, unless a dictionary has it: a question about a horse is not one about a house.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from string import ascii_lowercase
from typing import TYPE_CHECKING, TypeVar

TOKENIZER = "unicode61 remove_diacritics 2"

_WORD = re.compile(r"[^\W_]+")
_OWNER = re.compile(r"[^\W_]+(?:['’]s\b)?")  # "Tobias's" is one word
_NAME = re.compile(r"(?:\W*\b[A-ZÄÖÜÉ][^\W\d_]*)+")
_MOST_WORDS = 64
_LONG = 10  # letters
_ENDINGS = ("ing", "ed", "es", "s", "e")
# Words of nearly every sentence do not discriminate between passages. Those of German, French and
# Spanish that are names or English words for something (Ella, die, war, sin) are left out.
_STOP_WORDS = frozenset(
    """
    a about after all am an and any are as at be been before but by can could did do does for from
    had has have he her his how i if in into is it its many me most much my no not of on or our
    shall she should so some such than that the their them then there these they this those to
    under up us was we were what when where which while who whom whose why will with would you your
    aber als auf aus bei bis da das dass dem der des dich dir du durch ein eine einem einen
    einer eines er es habe haben hatte ich ihr im ist ja kann mein meine meinem meinen meiner
    mich mir nach nicht oder oft ob seit sich sie sind uns unser unsere unserem unserer viel
    viele vom von wann warum welche welchen welcher welches wenn wer werden wie wieviel wird wo
    wurde wurden zu zum zur und
    como con cual cuales cuando cuanta cuantas cuanto cuantos de del donde el en
    esta estan este fue la las le lo los mi mis muy nos para pero por que quien quienes se
    ser sus tiene tienen unas unos y yo
    au aux avec ce cette combien dans est et il ils je leur leurs mais mes notre
    nous ont ou pas pourquoi qu quand quel quelle quelles quels qui sa ses sont sur ta tes un
    une vos votre vous
    """.split()  # noqa: SIM905
)
RULES = (
    _WORD.pattern,
    _OWNER.pattern,
    _NAME.pattern,
    _MOST_WORDS,
    _LONG,
    _ENDINGS,
    *sorted(_STOP_WORDS),
)
"""The rules behind `coverage` and `without`, part of the scale's fingerprint."""
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
    sizes = _sizes(question)
    return sum(sizes[word] for word in _shared(sizes, passage)) / max(1, sum(sizes.values()))


def lacking(question: str, passages: Sequence[str]) -> list[float]:
    """The share of a question's words that each lacks and another passage has, as in `coverage`."""
    sizes = _sizes(question)
    shared = [_shared(sizes, passage) for passage in passages]
    anywhere = set[str]().union(*shared)
    total = max(1, sum(sizes.values()))
    return [sum(sizes[word] for word in anywhere - own) / total for own in shared]


def without(question: str, about: str) -> str:
    """A question without the names of what a document is `about`, compared by stem; else "".

    That is its title and, of each field ("Patient: Tobias Wrenn, born in 1988"), the name that
    stands first. Nothing is left out where the question has names of several fields: who wrote to
    whom is another matter.
    """
    title, *fields = about.splitlines() or [""]
    if ": " in title:  # as in a mail
        title, fields = "", [title, *fields]
    values = [field.partition(": ")[2] or field for field in fields]
    asked = {stem(word) for word in content_words(question) if word.isalpha()}
    named = [_stems(found.group()) & asked for each in values if (found := _NAME.match(each))]
    meant = [names for names in named if names]
    there = _stems(title) & asked | set[str]().union(*meant if len(meant) == 1 else ())
    if len(meant) > 1 or not there:
        return ""

    def left(found: re.Match[str]) -> str:
        word = next(iter(words(found.group())), "")
        return "" if stem(word) in there else found.group()

    return " ".join(_OWNER.sub(left, question).split())


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}


def _sizes(question: str) -> dict[str, int]:
    return {stem(word): min(len(word), _LONG) for word in content_words(question)}


def _shared(sizes: Mapping[str, int], passage: str) -> set[str]:
    return sizes.keys() & {stem(word) for word in words(passage)}


def stem(word: str) -> str:
    """A word without a plural or verb ending: "leave" and "leaves" both become "leav"."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            return word.removesuffix(ending)
    return word


def fused(*rankings: Sequence[Key]) -> list[Key]:
    """Reciprocal rank fusion of rankings, best first; ties in order of first appearance."""
    scores: defaultdict[Key, float] = defaultdict(float)
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] += 1 / (_RANK_OFFSET + rank)
    return sorted(scores, key=lambda key: -scores[key])


# Misspelt words.


if TYPE_CHECKING:
    from spellchecker import SpellChecker

_LEAST, _LONGEST = 4, 40  # letters; shorter words are one slip away from too many
_MOST_DOUBTED = 64  # words of a question: each has hundreds one slip away
_LATIN = re.compile(r"(?<![\w'’])[a-zA-Z]+(?![\w'’])")


def doubtful(question: str) -> list[str]:
    """The first distinct words that may be misspelt, lower-cased; not short words or names."""
    return list(dict.fromkeys(word.group().lower() for word in _doubtful(question)))[:_MOST_DOUBTED]


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
    every = [word.lower() for word in _LATIN.findall(question)]
    english = _dictionary().known(every)
    if 2 * sum(word in english for word in every) < len(every):
        return question
    for word in reversed(list(_doubtful(question))):
        said = word.group().lower()
        if said in near and said not in english:
            question = question[: word.start()] + near[said] + question[word.end() :]
    return question


def _doubtful(question: str) -> Iterator[re.Match[str]]:
    for word in _LATIN.finditer(question):
        first = not question[: word.start()].strip()
        if _LEAST <= len(word.group()) <= _LONGEST and (first or word.group().islower()):
            yield word


@lru_cache(maxsize=1)
def _dictionary() -> SpellChecker:
    from spellchecker import SpellChecker

    return SpellChecker(language="en")
