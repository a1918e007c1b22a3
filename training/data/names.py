"""Invented names and verb forms."""

from __future__ import annotations

import random

_ONSETS = (
    "b", "br", "c", "ch", "d", "dr", "f", "g", "gr", "h", "j", "k", "kl", "l", "m", "n", "p", "r",
    "s", "sh", "st", "t", "tr", "v", "w", "y", "z",
)  # fmt: skip
_VOWELS = ("a", "a", "e", "e", "i", "o", "o", "u", "ai", "ea", "ee", "ia", "oo", "ou")
_CODAS = ("", "", "", "n", "r", "l", "s", "m", "k", "nd", "rt", "x", "th")


def coined(rng: random.Random) -> str:
    """An invented name of two or three syllables."""
    parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 3))]
    word = "".join(parts) + rng.choice(_CODAS)
    if rng.random() < 0.2:
        word = word.lstrip("bcdfghjklmnprstvwyz")
    return word.capitalize()


def past_tense(verb: str) -> tuple[str, str]:
    """Past tense and participle; an irregular verb is given as ``base/past/participle``."""
    if "/" in verb:
        _, past, *rest = verb.split("/")
        return past, rest[0] if rest else past
    if verb.endswith("e"):
        past = verb + "d"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        past = verb[:-1] + "ied"
    else:
        past = verb + "ed"
    return past, past
