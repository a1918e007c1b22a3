"""Common nouns and adjectives of the raw text, for facts about anything at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_NOUN = re.compile(r"\bthe ([a-z]{3,12}) (?:of|is|was|were|in|and|which|at)\b")
_ADJECTIVE = re.compile(r"\b(?:very|so|too|most|quite|rather) ([a-z]{4,11})\b")
_NEVER = frozenset(
    """
    the and that this much many well soon often long like other same others rest one what some all
    two three more most very also only just then than there here likely early late first last
    """.split()  # noqa: SIM905
)


def common_words(paragraphs: Iterable[str], pattern: re.Pattern[str], least: int) -> list[str]:
    """Words that the pattern finds at least so often, in alphabetical order."""
    counts: Counter[str] = Counter()
    for paragraph in paragraphs:
        counts.update(pattern.findall(paragraph))
    return sorted(w for w, n in counts.items() if n >= least and w not in _NEVER and w[-2:] != "ly")


def nouns_and_adjectives(paragraphs: list[str]) -> dict[str, list[str]]:
    """Word lists for the slots ``noun`` and ``adjx``."""
    sample = paragraphs[:: max(1, len(paragraphs) // 60_000)]
    return {
        "noun": common_words(sample, _NOUN, 6),
        "adjx": common_words(sample, _ADJECTIVE, 5),
    }
