"""Summaries: a document's most central sentences in their order, one a section at most.

The central one's embedding is close to the mean of its section, and it states facts: of two that
are about as close, people ask for what has numbers and names.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragon.retrieval.courtesy import plain
from dragon.retrieval.index import Vectors
from dragon.retrieval.lexical import content_words, stem, words

_ASKS = re.compile(
    r"\A\W*(?:(?:can|could|would) you )?(?:please |pls )?(?:"
    r"summari[sz]e|sum up|tl;?dr"
    r"|(?:(?:give|show|write|make)(?: me)?|i(?:'d like| want| need)|what(?: is|'s| are))? ?"
    r"(?:an?|the)? ?(?:brief|short|quick|rough)? ?"
    r"(?:summary|overview|gist|(?:main|key|most important) (?:points?|facts?|things?|ideas?))"
    r"(?= (?:of|for|on|about|from|to)\b|\W*\Z)"
    r")\b(?P<subject>.*)"
    r"|\A\W*what(?: is|'s| are|'re)(?P<about>.*)\babout\W*\Z"
    r"|\A\W*what (?:should|must|do) (?:i|we) (?:need to )?know(?: about (?P<of>.*))?\W*\Z"
    # As the page suggests it in its other languages.
    r"|\A\W*fass(?:en sie|e)? (?P<de>.*)\bzusammen\W*\Z"
    r"|\A\W*resuma (?P<es>.*)",
    re.IGNORECASE,
)
# They name no document.
_ANY = {
    "document", "documents", "doc", "file", "files", "text", "note", "notes", "page", "upload",
    "uploaded", "latest", "last", "new", "content", "contents",
}  # fmt: skip
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_MOST = 8  # sentences
_LEAST = 3  # sections
_CHARACTERS = 900
_WORDS = 5  # of a sentence, at least
_FACT = re.compile(r"\d+|(?<!\A)\b[A-Z][a-z]+")
_FACTS, _WORTH = 3, 0.05  # how many count, and each as much as this cosine


@dataclass(frozen=True)
class Place:
    """A sentence of a document: character offsets, and its embedding float32 [dim]."""

    start: int
    end: int
    vector: Vectors


def subject(question: str) -> frozenset[str] | None:
    """The stems that say what is to be summarised, none for any document; None: no summary.

    What stands in brackets was taken over from an earlier question.
    """
    found = _ASKS.match(plain(question.partition(" (")[0]))
    if found is None:
        return None
    named = next(filter(None, found.groups()), "")
    return frozenset(stem(word) for word in content_words(named) if word not in _ANY)


def named(subject: frozenset[str], name: str) -> int:
    """How many of these stems stand in a document's name."""
    return len(subject & {stem(word) for word in words(name)})


def central(text: str, places: Sequence[Place]) -> list[Place]:
    """The sentences that sum up a text, in order, from its longest sections."""
    places = [each for each in places if len(text[each.start : each.end].split()) >= _WORDS]
    chosen: list[Place] = []
    room = _CHARACTERS
    for section in sorted(_sections(text, places), key=_length, reverse=True):
        mean = np.mean([each.vector for each in section], axis=0)
        mean /= np.linalg.norm(mean)
        best = max(section, key=lambda each: float(each.vector @ mean) + _stated(text, each))
        if len(chosen) < _MOST and best.end - best.start <= room:
            chosen.append(best)
            room -= best.end - best.start
    return sorted(chosen, key=lambda each: each.start)


def _stated(text: str, place: Place) -> float:
    """What the numbers and names of a sentence are worth, as a cosine."""
    return _WORTH * min(_FACTS, len(_FACT.findall(text[place.start : place.end])))


def _length(section: Sequence[Place]) -> int:
    return sum(each.end - each.start for each in section)


def _sections(text: str, places: Sequence[Place]) -> list[Sequence[Place]]:
    """The places under each heading, or else in each paragraph, or else in each third."""
    for border in (_HEADING, _PARAGRAPH):
        starts = [found.start() for found in border.finditer(text)]
        found: dict[int, list[Place]] = {}
        for each in places:
            found.setdefault(bisect(starts, each.start), []).append(each)
        if len(found) >= _LEAST:
            return list(found.values())
    size = -(-len(places) // _LEAST)
    return [places[at : at + size] for at in range(0, len(places), size)] if places else []
