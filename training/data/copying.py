"""Sentences that can be quoted only by copying: rare strings, pieces of words, repeated words.

After a word that stands twice in a sentence, and inside a word never seen, the next token follows
from no habit of the language; a model that has to write these exactly learns to keep its place.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence

SYMBOLS = "-/.:_#+"
CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", ("a", "e", "i", "o", "u", "y", "ä", "é", "ö", "ü", "ó")
COMMON = ("the", "of", "and", "in", "to", "a", "from", "is", "for", "with", "that", "as", "on")
AMOUNTS = ("{} euros", "€{}", "${}", "£{}", "{} kg", "{} km", "{} g", "{} ml", "{}%", "{} pounds")


def invented_word(rng: random.Random) -> str:
    """A word or name that nobody uses, in a third of cases with a syllable that comes again."""
    syllables = [
        rng.choice(CONSONANTS) + rng.choice(VOWELS[:6] if rng.random() < 0.9 else VOWELS)
        + rng.choice(("", "", rng.choice(CONSONANTS)))
        for _ in range(rng.randint(2, 4))
    ]  # fmt: skip
    if rng.random() < 0.35:
        syllables.insert(rng.randrange(len(syllables) + 1), rng.choice(syllables))
    word = "".join(syllables)
    return word.capitalize() if rng.random() < 0.7 else word


def code(rng: random.Random) -> str:
    """Groups of letters and digits, as on tickets, contracts and routers."""
    alphabets = (
        string.digits, string.digits, string.ascii_uppercase, string.ascii_lowercase,
        string.ascii_uppercase + string.digits, string.ascii_letters + string.digits,
    )  # fmt: skip
    few = "".join(rng.choices(rng.choice(alphabets), k=rng.randint(2, 4)))
    used = (few,) if rng.random() < 0.4 else alphabets
    groups = [
        "".join(rng.choices(rng.choice(used), k=rng.randint(1, 6)))
        for _ in range(rng.choice((1, 2, 2, 3, 4)))
    ]
    if rng.random() < 0.15:
        groups.insert(rng.randrange(len(groups) + 1), invented_word(rng))
    between: str = rng.choice(("", " ", *SYMBOLS, "-", "-", "-"))
    return between.join(groups)


def amount(rng: random.Random) -> str:
    """A number with a unit or a currency."""
    number = rng.choice((
        f"{rng.randint(1, 999)}", f"{rng.randint(1, 99)},{rng.randint(0, 999):03d}",
        f"{rng.randint(1, 999)}.{rng.randint(0, 99):02d}", f"{rng.randint(1, 9999999):,}",
        f"{rng.randint(0, 99)}.{rng.randint(1, 9)}",
    ))  # fmt: skip
    if rng.random() < 0.3:
        number = number.replace(rng.choice(string.digits), number[-1])
    return rng.choice(AMOUNTS).format(number)


def rare_string(rng: random.Random) -> str:
    """A code, an amount, a name, a time or an address."""
    roll = rng.random()
    if roll < 0.4:
        return code(rng)
    if roll < 0.6:
        return amount(rng)
    if roll < 0.85:
        names = [invented_word(rng).capitalize() for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.3:
            names.append(rng.choice(CONSONANTS).upper() + names[0][rng.randint(1, 3) :])
        return " ".join(names)
    return rng.choice((
        f"{rng.randint(0, 23)}:{rng.randint(0, 59):02d}",
        f"{invented_word(rng).lower()}@{invented_word(rng).lower()}.{rng.choice(('com', 'org'))}",
        f"0{rng.randint(10, 999)} {rng.randint(100, 999)} {rng.randint(1000, 9999)}",
        f"{rng.randint(1, 30)}/{rng.randint(1, 12)}/{rng.randint(1900, 2040)}",
    ))  # fmt: skip


def with_rare_strings(sentence: str, rng: random.Random) -> tuple[str, list[str]]:
    """The sentence with one to three of its words replaced, and what by."""
    words = sentence.split()
    places = rng.sample(range(len(words)), min(len(words), rng.randint(1, 3)))
    rare = [rare_string(rng) for _ in places]
    for place, text in zip(places, rare, strict=True):
        mark = words[place][-1] if words[place][-1] in ".,;:!?" else ""
        words[place] = text + mark
    return " ".join(words), rare


def scrambled(pieces: Sequence[str], rng: random.Random) -> tuple[str, list[str]]:
    """Words put together from tokens, and some of those words to ask with."""
    words = [
        "".join(rng.choices(pieces, k=rng.choice((1, 1, 2, 3)))) for _ in range(rng.randint(4, 20))
    ]
    return _sentence(words), rng.sample(words, min(len(words), 3))


def repeating(words: Sequence[str], rng: random.Random) -> tuple[str, list[str]]:
    """A few common words again and again between others, and some of the others."""
    habits = [*rng.sample(COMMON, 2), rng.choice(words)]
    mixed = [
        rng.choice(habits) if rng.random() < 0.45 else rng.choice(words)
        for _ in range(rng.randint(8, 30))
    ]
    rare = [word for word in mixed if word not in habits] or mixed
    return _sentence(mixed), rng.sample(rare, min(len(rare), 3))


def _sentence(words: list[str]) -> str:
    text = " ".join(words)
    return f"{text[:1].upper()}{text[1:]}."
