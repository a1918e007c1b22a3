"""Questions with sentences, some of which answer them: what the reranker is trained on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from dragon.retrieval.answerability import kind_missing, names
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.lexical import content_words, coverage
from training.data.chains import ChainSource
from training.data.corpus import GroundedQuestion, split_sentences
from training.data.facts import FactSource, stable_hash
from training.data.hard_negatives import Spoiler
from training.data.instructions import instruction
from training.data.prose import ProseSource
from training.data.rules import make_question
from training.data.written import Written, read_written

ROWS = 5
"""Sentences a question, at most."""
_SPOILT = 0.4
_LOWER, _UNMARKED = 0.15, 0.15
_HEADED = 0.25
_POOL = 4000
_HELD_OUT = 10
_OTHERS = 20
_HEADINGS = (
    "{}", "{}", "{}:", "Notes: {}", "About {}", "Subject: {}", "Re: {}", "My {}", "For {}",
    "{} list", "Things about {}", "The {}", "{}, to remember", "{} 2025", "New: {}",
    "Ideas for {}", "Plan for {}",
)  # fmt: skip
_HEADING_WORDS = 3


@dataclass(frozen=True)
class Group:
    """A question, and sentences as the product shows them to the reranker: which answer it."""

    question: str
    rows: list[str]
    answers: list[bool]


@dataclass
class _Cut:
    """A text cut as the product does: the sentences, and what is seen of each."""

    texts: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


def held_out(text: str) -> bool:
    """Whether a text with its questions is kept from training."""
    return stable_hash(text) % _HELD_OUT == 0


class GroupSource:
    """Draws groups of every kind."""

    def __init__(
        self,
        facts: FactSource,
        prose: ProseSource,
        spoiler: Spoiler,
        chains: ChainSource,
    ) -> None:
        self.facts = facts
        self.prose = prose
        self.spoiler = spoiler
        self.chains = chains
        self.grounded = [row for row in prose.grounded if not held_out(row.context)]
        self.written = [row for row in read_written() if not held_out(row.text)]
        self._kinds: dict[Callable[[random.Random], Group | None], float] = {
            self.fact: 0.15, self.human: 0.10, self.ruled: 0.14, self.chain: 0.08,
            self.request: 0.03, self.asked: 0.25, self.unasked: 0.25,
        }  # fmt: skip

    def draw(self, rng: random.Random) -> Group:
        """One group, with at least two sentences."""
        while True:
            made = rng.choices(list(self._kinds), list(self._kinds.values()))[0](rng)
            if made is not None and len(made.rows) > 1:
                return made

    def fact(self, rng: random.Random) -> Group | None:
        """A generated fact, among facts that share its relation or its names."""
        doc = self.facts.document(rng, 700)
        fact = rng.choice(doc.facts)
        question = self.facts.question(doc, fact, rng)
        if question is None:
            return None
        question = self.prose.synonyms.swap(question, rng, 0.3)
        cut = self._cut(doc.text)
        right = [fact.sentence.rstrip(".") in text for text in cut.texts]
        if not any(right):
            return None
        if rng.random() < 0.3:
            return self._about_another(question, cut, right, rng)
        return self._group(question, cut, right, rng)

    def _about_another(
        self, question: str, cut: _Cut, right: list[bool], rng: random.Random
    ) -> Group | None:
        """Sentences of another document that share most words with the question."""
        others = [self.facts.document(rng, 700) for _ in range(8)]
        best = max(others, key=lambda doc: coverage(question, doc.text))
        other = self._cut(best.text)
        keep = [i for i, text in enumerate(other.texts) if coverage(question, text) < 0.99]
        if rng.random() < 0.5:
            cut.seen += [other.seen[i] for i in keep]
            cut.texts += [other.texts[i] for i in keep]
            return self._group(question, cut, right + [False] * len(keep), rng)
        rows = [other.seen[i] for i in keep]
        return Group(question, rows[:ROWS], [False] * min(len(rows), ROWS))

    def human(self, rng: random.Random) -> Group | None:
        """A question of a person, with its passage."""
        return self.grounded_group(rng.choice(self.grounded), rng)

    def grounded_group(self, row: GroundedQuestion, rng: random.Random) -> Group | None:
        """The sentences of a passage; other sentences with the answer's string are left out."""
        cut = self._cut(row.context)
        holders = [i for i, text in enumerate(cut.texts) if row.answer in text]
        if not holders:
            return None
        best = max(holders, key=lambda i: coverage(row.question, cut.texts[i]))
        keep = [i for i in range(len(cut.texts)) if i == best or i not in holders]
        kept = _Cut([cut.texts[i] for i in keep], [cut.seen[i] for i in keep])
        return self._group(
            self.prose.synonyms.swap(row.question, rng, 0.15), kept, [i == best for i in keep], rng
        )

    def asked(self, rng: random.Random) -> Group:
        """A written question, among sentences of its own and of other texts."""
        row = rng.choice(self.written)
        return self.written_group(row, *rng.choice(row.asked), rng)

    def unasked(self, rng: random.Random) -> Group:
        """A written question that its text does not answer."""
        row = rng.choice(self.written)
        return self.written_group(row, rng.choice(row.unasked), None, rng)

    def written_group(
        self, row: Written, question: str, answer: str | None, rng: random.Random
    ) -> Group:
        """The sentences that share most words with the question, and the one that answers."""
        title = heading(question, rng) if rng.random() < _HEADED / 2 else None
        cut = self._cut(f"{title}\n{row.text}" if title else row.text)
        right = [answer is not None and _same(text, answer) for text in cut.texts]
        if title is not None:
            right[0] = False
        others = [one for one in rng.sample(self.written, _OTHERS) if one is not row]
        strangers = sorted(
            (seen for other in others for seen in self._cut(other.text).seen),
            key=lambda seen: -coverage(question, seen),
        )[: rng.randint(0, 2)]
        order = sorted(
            range(len(right)), key=lambda i: (not right[i], -coverage(question, cut.texts[i]))
        )
        chosen = [(cut.seen[i], right[i]) for i in order[: ROWS - len(strangers)]]
        chosen += [(seen, False) for seen in strangers]
        rng.shuffle(chosen)
        question = typed(question, rng)
        return Group(question, [seen for seen, _ in chosen], [good for _, good in chosen])

    def ruled(self, rng: random.Random) -> Group | None:
        """A question made by rule from a real sentence, with the sentence's paragraph."""
        text = self.prose.paragraph(rng)
        if rng.random() < 0.3:
            text += " " + self.prose.paragraph(rng)
        cut = self._cut(text[:1200])
        place = rng.randrange(len(cut.texts))
        sentence = cut.texts[place]
        question = make_question(sentence, cut.texts, rng)
        if question is None:
            return None
        question = self.prose.synonyms.swap(question, rng, 0.5)
        if not question.lower().startswith(("who", "what", "which", "when", "where", "how", "why",
                                            "in which")) and rng.random() < 0.7:  # fmt: skip
            return None
        missing = kind_missing(question, sentence)
        if question.lower().startswith(("why", "how ")) and not missing and rng.random() < 0.7:
            return None
        right = [i == place and not missing for i in range(len(cut.texts))]
        return self._group(question, cut, right, rng, near=place)

    def chain(self, rng: random.Random) -> Group:
        """A question in two steps, answered in part by the note that it begins with.

        In a third of cases that note is missing. Facts about other things never answer it.
        """
        chain = self.chains.draw(rng)
        documents = [self.facts.document(rng, 400) for _ in range(6)]
        near = max(documents, key=lambda document: coverage(chain.question, document.text))
        facts = sorted(self._cut(near.text).seen, key=lambda text: -coverage(chain.question, text))
        rows = chain.others[: rng.randint(1, 2)] + facts[:1]
        missing = rng.random() < 0.33
        if not missing:
            rows.insert(rng.randint(0, len(rows)), chain.note)
        return Group(chain.question, rows, [row == chain.note for row in rows])

    def request(self, rng: random.Random) -> Group:
        """A request that no sentence answers."""
        doc = self.facts.document(rng)
        rows = self._cut(doc.text).seen + self._cut(self.prose.passage(rng, 300)).seen
        rng.shuffle(rows)
        rows = rows[:3]
        return Group(instruction(self.prose, rng)[:200], rows, [False] * len(rows))

    def _cut(self, text: str) -> _Cut:
        pieces = sentences([text])
        return _Cut(
            [piece.text for piece in pieces],
            [embedded_text(piece.text, piece.context) for piece in pieces],
        )

    def _group(
        self,
        question: str,
        cut: _Cut,
        right: list[bool],
        rng: random.Random,
        near: int | None = None,
    ) -> Group:
        """The sentence that answers, and those that share most words; or a question spoilt."""
        title = heading(question, rng) if rng.random() < _HEADED else None
        if title is not None:
            seen = [title, *(embedded_text(text, title) for text in cut.texts)]
            cut, right = _Cut([title, *cut.texts], seen), [False, *right]
            near = None if near is None else near + 1
        spoilt = None
        if rng.random() < _SPOILT:
            at = right.index(True) if any(right) else near
            spoilt = None if at is None else self.spoiler.spoil(question, cut.texts[at], rng)
        place = right.index(True) if any(right) else near
        shares = [coverage(question, text) + 0.3 * rng.random() for text in cut.texts]
        if title is not None:
            shares[0] += 1.0
        order = sorted(range(len(shares)), key=lambda i: (i != place, -shares[i]))
        chosen = order[: 2 if spoilt else ROWS]
        rng.shuffle(chosen)
        answers = [right[i] and spoilt is None for i in chosen]
        return Group(spoilt or question, [cut.seen[i] for i in chosen], answers)


def _same(piece: str, answer: str) -> bool:
    """Whether a piece of a text is the sentence meant, or is part of it or more than it."""
    return answer in piece or (len(piece) > 12 and piece in answer)


def typed(question: str, rng: random.Random) -> str:
    """A question as people type it, some without capitals or a mark, whether or not it is answered.

    As they were written more of those that are answered have none, which would give them away.
    """
    bare = question.rstrip("?. ")
    bare = bare.lower() if rng.random() < _LOWER else bare[0].upper() + bare[1:]
    return bare if rng.random() < _UNMARKED else f"{bare}?"


def heading(question: str, rng: random.Random) -> str | None:
    """What a note with the answer may open with: words of the question, which answer nothing."""
    distinctive = set(content_words(question))
    asked = [word for word in re.findall(r"[^\W_]+", question) if word.lower() in distinctive]
    if not asked:
        return None
    count = rng.randint(1, min(_HEADING_WORDS, len(asked)))
    start = rng.randint(0, len(asked) - count)
    title = rng.choice((" ", " ", " and ")).join(asked[start : start + count])
    made = rng.choice(_HEADINGS).format(title) + rng.choice(("", ".", ""))
    return made[0].upper() + made[1:]


def name_pool(prose: ProseSource, rng: random.Random) -> list[str]:
    """Names of real texts."""
    found: list[str] = []
    while len(found) < _POOL:
        for sentence in split_sentences(rng.choice(prose.articles)):
            found += names(sentence)
    return found
