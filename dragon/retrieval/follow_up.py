"""Whether a written sentence asks for another one, and what for: retrieval in several hops.

"What is the capital of the country I fly to in June?" needs both sides. The device writes "I fly to
Bhutan on 14 June." What the question has beyond that (capital, country) and what that has beyond
the question (Bhutan) is what to ask the cloud for.

The numbers were chosen on `bench/two_sided.jsonl` with all-MiniLM-L6-v2: of its 30 questions that
need both sides 24 find something to go on with, of the 400 others none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dragon.retrieval.lexical import coverage, lacking, stem, words

MISSING = 0.3
"""The share of a question, by its words, that must be missing before anything is searched for."""

SCORE = 0.55
"""The score for the follow-up query under which a passage does not go on with the answer."""

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
        known = f"{self.written} {self.source}"
        return (
            coverage(self.written, self.source) >= _GROUNDED
            and bool(lacking(self.question, known))
            and 1.0 - coverage(self.question, known) >= MISSING
        )

    @property
    def query(self) -> str:
        """What is missing, of what is written.

        Of the question and the text alone, which both sides know: the source may be private.
        """
        return " ".join([*lacking(self.question, self.written), *self._brought])

    def answered_by(self, passage: str, score: float) -> bool:
        """Whether a passage found by the query with this score goes on with what is written.

        It has to name what the text has brought into the answer, and must not say the same.
        """
        return (
            score >= SCORE
            and coverage(passage, f"{self.written} {self.source}") < _REPEATED
            and any(_names(passage, word) for word in self._telling)
        )

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
