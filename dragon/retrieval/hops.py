"""Multi-hop retrieval: whether a written sentence calls for a further hop, and its query.

"What is the capital of the country I fly to in June?" needs both sides. The device writes "I fly to
Bhutan on 14 June." The query of the next hop is what the question has beyond that sentence
(capital, country) and what the sentence has beyond the question (Bhutan). Of a message that joins
questions ("What is the capital of Kenya, and what is my locker's code?") the unanswered question is
the query.

The thresholds were chosen on the questions of `bench.two_sided` with all-MiniLM-L6-v2: of its 30
questions that need both sides 24 find a passage in the second hop, of the 400 others none.
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
"""The least score for the hop's query of a passage that continues the answer."""

_ANSWERED = 0.5
"""The share of a question's words that a text must have to count as its answer."""

_GROUNDED = 0.5
"""The least share of an answer's words found in its passage. Small talk and refusals have less."""

_REPEATED = 0.6
"""A passage with this share of its words in the text written repeats it."""

_AMOUNT = re.compile(r"\d[ -]?([^\W\d_]+)")

_DESCRIBED = re.compile(
    r"\b(?:[Tt]he|[Aa]n?)\s(?:[\w-]+\s){0,2}?(?P<thing>[\w-]+)\s"
    r"(?P<clause>(?:(?:that|which|who|whom|whose|where|I|you|we|he|she|it|they|my|your|our|his|her"
    r"|their)\s|[A-Z]).*)"
)
"""A thing and the clause that says which one is meant: "the country I fly to"."""

_VERB_LAST = re.compile(r"\b(?:do|does|did|will|would|can|could)\s*\Z", re.IGNORECASE)
_ITSELF = frozenset({"name", "names", "kind", "sort", "title", "type"})
"""To ask for the name of a thing is to ask for the thing."""

_LINK, _ROOT = 3, 5
"""Least letters of a word that links two sentences, and of a shared root (Estonia, Estonian)."""


@dataclass(frozen=True)
class OpenQuestion:
    """What `written`, an answer to `question` from the passage `source`, leaves open.

    `own` where one's own documents are asked: then a question is left unless the text names all of
    it, and whether another passage answers it, their judgement says.
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
        """Whether to offer to go on where that is not done unasked.

        Words that differ are no sign of that: few answers have those of their question. It takes
        a question left, or one about a thing that the text tells by its description only.
        """
        return bool(self.left) or any(
            self._about(found["thing"], found["clause"], self.question[: found.start()])
            for found in _DESCRIBED.finditer(self.question)
        )

    def _about(self, thing: str, clause: str, before: str) -> bool:
        """Whether the text tells which thing is meant, and not what is asked of it."""
        known = f"{self.written} {self.source}"
        asked = [word for word in lacking(before, known) if len(word) > 1]  # not that of "what's"
        if _VERB_LAST.search(before):
            asked += lacking(words(clause)[-1], known)
        tells = coverage(clause, known) > 0 and bool(lacking(thing, known))
        return tells and not _ITSELF.issuperset(asked)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """The questions of a message that the text leaves, where that joins several.

        One's own documents are asked those of which the text does not name all, also those that
        point back, made to stand alone. The cloud is asked those of which it names nothing, and
        none unless the text clearly answers one: a question that shares a word with the text, or
        its root, may be answered by it, or build on it. What another one asks about, too, says
        nothing.
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
        """Whether the text has a word, or one of its root."""
        return bool(coverage(word, self.written)) or _names(self.written, stem(word))

    @property
    def query(self) -> str:
        """The questions left or, if none is, the words missing and the words brought in.

        Built from the question and the text alone, which both sides know: the source may be
        private.
        """
        if self.left:
            return " ".join(f"{question.rstrip('?.!; ')}?" for question in self.left)
        return " ".join([*lacking(self.question, self.written), *self.brought])

    def answered_by(self, passage: str, score: float) -> bool:
        """Whether a passage found by the query with this score continues the answer.

        It must not repeat the text, and must name what the text brought into the answer. What was
        found for a question left has been judged to answer it: it only has to differ from the text.
        """
        said = coverage(passage, f"{self.written} {self.source}")
        if self.left:
            return said < 1.0
        named = any(_names(passage, word) for word in self._distinctive)
        return said < _REPEATED and named and score >= SCORE

    @property
    def brought(self) -> list[str]:
        """Words of the text that the query takes along; none where it is of questions left."""
        return [] if self.left else lacking(self.written, self.question)

    @property
    def _distinctive(self) -> list[str]:
        """Words brought in, without units (104.5 degrees) and roots of the question (weight)."""
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
