"""Whether a written sentence asks for another one, and what for: retrieval in several hops.

"What is the capital of the country I fly to in June?" needs both sides. The device writes "I fly to
Bhutan on 14 June." What the question has beyond that (capital, country) and what that has beyond
the question (Bhutan) is what to ask the cloud for. Of a message that joins questions ("What is the
capital of Kenya, and what is my locker's code?") the other one is asked as it stands.

The numbers were chosen on `bench/two_sided.jsonl` with all-MiniLM-L6-v2: of its 30 questions that
need both sides 24 find something to go on with, of the 400 others none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from dragon.retrieval.lexical import coverage, lacking, stem, words
from dragon.retrieval.query_parsing import questions_of

MISSING = 0.3
"""The share of a question, by its words, that must be missing before anything is searched for."""

SCORE = 0.55
"""The score for the follow-up query under which a passage does not go on with the answer."""

_ANSWERED = 0.5
"""The share of a question's words that the text must have to be taken for its answer."""

_GROUNDED = 0.5
"""The share of a sentence's words that its passage has. Small talk and refusals have less."""

_REPEATED = 0.6
"""A passage says the same once more with this share of its words in what is written."""

_AMOUNT = re.compile(r"\d[ -]?([^\W\d_]+)")

_LINK, _ROOT = 3, 5
"""Letters of a word that can link two sentences, and of a root (Estonia) that another one has."""


@dataclass(frozen=True)
class FollowUp:
    """What `written`, an answer to `question` from the passage `source`, leaves open."""

    question: str
    written: str
    source: str

    @property
    def wanted(self) -> bool:
        """Whether words of the question have been answered by neither the text nor its source."""
        if coverage(self.written, self.source) < _GROUNDED:
            return False
        known = f"{self.written} {self.source}"
        missing = 1.0 - coverage(self.question, known)
        return bool(self.left) or (bool(lacking(self.question, known)) and missing >= MISSING)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """Of a message that joins questions, those about something else than what is written.

        Where the text answers one of them plainly. What shares a word with the text may be answered
        by it, or go on from it.
        """
        _, *joined = questions_of(self.question)
        shares = [coverage(question, self.written) for question in joined]
        if max(shares, default=0.0) < _ANSWERED:
            return ()
        return tuple(one for one, share in zip(joined, shares, strict=True) if not share)

    @property
    def query(self) -> str:
        """The questions left or, if none is, what is missing of what is written.

        Of the question and the text alone, which both sides know: the source may be private.
        """
        if self.left:
            return " ".join(f"{question.rstrip('?.!; ')}?" for question in self.left)
        return " ".join([*lacking(self.question, self.written), *self._brought])

    def answered_by(self, passage: str, score: float) -> bool:
        """Whether a passage found by the query with this score goes on with what is written.

        It must not say the same, and has to name what the text has brought into the answer; what
        answers a question that is left has to say something else at all.
        """
        said = coverage(passage, f"{self.written} {self.source}")
        if self.left:
            goes_on = said < 1.0
        else:
            goes_on = said < _REPEATED and any(_names(passage, word) for word in self._telling)
        return goes_on and score >= SCORE

    @property
    def _brought(self) -> list[str]:
        return lacking(self.written, self.question)

    @property
    def _telling(self) -> list[str]:
        """What is brought, without units (104.5 degrees) and roots of the question (weight)."""
        units = {word for amount in _AMOUNT.findall(self.written) for word in words(amount)}
        return [w for w in self._brought if w not in units and not _names(self.question, stem(w))]


def _names(passage: str, word: str) -> bool:
    """Whether a passage has a word, or one of the same root: Estonia and Estonian."""
    if word.isdigit() or len(word) < _LINK:
        return False
    if not lacking(word, passage):
        return True
    return any(
        min(len(word), len(other)) >= _ROOT and (other.startswith(word) or word.startswith(other))
        for other in words(passage)
    )
