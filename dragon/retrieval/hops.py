"""Multi-hop retrieval: whether a written sentence calls for a further hop, and its query.

"What is the capital of the country I fly to in June?" needs both sides. The device writes "I fly to
Bhutan on 14 June." The query of the next hop is what the question has beyond that sentence
(capital, country) and what the sentence has beyond the question (Bhutan). For a message that joins
questions ("What is the capital of Kenya, and what is my locker's code?") the query is the
unanswered question.

The thresholds were chosen on the questions of `bench.two_sided` with all-MiniLM-L6-v2: of its 30
questions that need both sides, 24 find a passage in the second hop; of the 400 others, none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from dragon.retrieval.lexical import content_words, coverage, lacking, stem, words
from dragon.retrieval.query_parsing import parts_of, questions_of
from dragon.retrieval.standing_alone import standing_alone

MISSING = 0.3
"""The share of a question's words that must be unanswered for a further hop."""

SCORE = 0.55
"""The least score, for the hop's query, of a passage that continues the answer."""

_ANSWERED = 0.5
"""The share of a question's words that a text must have to count as its answer."""

_GROUNDED = 0.5
"""The least share of an answer's words found in its passage. Small talk and refusals have less."""

_REPEATED = 0.6
"""A passage with this share of its words in the written text repeats it."""

_AMOUNT = re.compile(r"\d[ -]?([^\W\d_]+)")

_DESCRIBED = re.compile(
    r"\b(?:[Tt]he|[Aa]n?)\s(?:[\w-]+\s){0,2}?(?P<thing>[\w-]+)\s"
    r"(?P<clause>(?:(?:that|which|who|whom|whose|where|I|you|we|he|she|it|they|my|your|our|his|her"
    r"|their)\s|[A-Z]).*)"
)
"""A thing and the clause that says which one is meant: "the country I fly to"."""

_VERB_LAST = re.compile(r"\b(?:do|does|did|will|would|can|could)\s*\Z", re.IGNORECASE)
_ITSELF = frozenset({"name", "names", "kind", "sort", "title", "type"})
"""Asking for the name of a thing is asking for the thing."""

_LINK, _ROOT = 3, 5
"""The least letters of a word linking two sentences, and of a shared root (Estonia, Estonian)."""


@dataclass(frozen=True)
class OpenQuestion:
    """What `written`, an answer to `question` from the passage `source`, leaves open.

    `own` if the user's own documents are asked next: then a question is left unless the text names
    all of it, and the judge decides whether another passage answers it.
    """

    question: str
    written: str
    source: str
    own: bool = False

    @property
    def wanted(self) -> bool:
        """Whether words of the question occur in neither the text nor its source."""
        if coverage(self.written, self.source) < _GROUNDED:
            return False
        known = f"{self.written} {self.source}"
        missing = 1.0 - coverage(self.question, known)
        return bool(self.left) or (bool(lacking(self.question, known)) and missing >= MISSING)

    @property
    def offered(self) -> bool:
        """Whether to offer a further hop where it is not done unasked.

        Differing words are no sign of it: few answers have those of their question. It takes a
        question left, or one about a thing that the text identifies only by its description.
        """
        return bool(self.left) or any(
            self._about(found["thing"], found["clause"], self.question[: found.start()])
            for found in _DESCRIBED.finditer(self.question)
        )

    def _about(self, thing: str, clause: str, before: str) -> bool:
        """Whether the text tells which thing is meant, but not what is asked about it."""
        known = f"{self.written} {self.source}"
        asked = [word for word in lacking(before, known) if len(word) > 1]  # not the s of what's
        if _VERB_LAST.search(before):
            asked += lacking(words(clause)[-1], known)
        tells = coverage(clause, known) > 0 and bool(lacking(thing, known))
        return tells and not _ITSELF.issuperset(asked)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """The questions of a joined message that the text leaves open.

        The user's own documents are asked the questions that the text does not name in full,
        including those that refer back, made to stand alone. The cloud is asked those of which the
        text names nothing, and only if the text clearly answers one: a question that shares a word
        or its root with the text may be answered by it, or build on it. Words that another of the
        questions has, too, do not count.
        """
        if self.own:
            joined, answered = parts_of(self.question), all
        else:
            joined, answered = list(questions_of(self.question)[1:]), any
            shares = [coverage(question, self.written) for question in joined]
            if max(shares, default=0.0) < _ANSWERED:
                return ()
        return tuple(
            standing_alone(one, joined[:n]) if self.own else one
            for n, one in enumerate(joined)
            for about in [lacking(one, " ".join(joined[:n] + joined[n + 1 :]))]
            if not answered(map(self._told, about or content_words(one)))
        )

    def _told(self, word: str) -> bool:
        """Whether the text has a word, or one of the same root."""
        return bool(coverage(word, self.written)) or _names(self.written, stem(word))

    @property
    def query(self) -> str:
        """The questions left or, if there are none, the missing words and the words brought in.

        Built from the question and the text alone, which both sides know: the source may be
        private.
        """
        if self.left:
            return " ".join(f"{question.rstrip('?.!; ')}?" for question in self.left)
        return " ".join([*lacking(self.question, self.written), *self.brought])

    def answered_by(self, passage: str, score: float) -> bool:
        """Whether a passage found by the query with this score continues the answer.

        It must not repeat the text, and must name what the text brought into the answer. A passage
        found for a question left has been judged to answer it, so it only has to differ from the
        text.
        """
        said = coverage(passage, f"{self.written} {self.source}")
        if self.left:
            return said < 1.0
        named = any(_names(passage, word) for word in self._distinctive)
        return said < _REPEATED and named and score >= SCORE

    @property
    def brought(self) -> list[str]:
        """Words that the query takes from the text; none if it asks the questions left."""
        return [] if self.left else lacking(self.written, self.question)

    @property
    def _distinctive(self) -> list[str]:
        """Words brought in, without units (104.5 degrees) and roots of the question's (weight)."""
        units = {word for amount in _AMOUNT.findall(self.written) for word in words(amount)}
        return [w for w in self.brought if w not in units and not _names(self.question, stem(w))]


def _names(passage: str, word: str) -> bool:
    """Whether a passage has a word or one of the same root (Estonia and Estonian)."""
    if word.isdigit() or len(word) < _LINK:
        return False
    if not lacking(word, passage):
        return True
    return any(
        min(len(word), len(other)) >= _ROOT and (other.startswith(word) or word.startswith(other))
        for other in words(passage)
    )
