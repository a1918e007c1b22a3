"""Training examples: a document with several independent conversations that branch off it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import IntEnum

from training.facts import Document, Fact, FactSource
from training.prose import ProseSource
from training.special import ASSISTANT, DOC, END, USER

SINGLE_SENTENCES = 0.6
"""The share of fact documents that are one sentence, which is what the engine's rows hold."""

DECLINE = "I could not find that in the documents."


class Role(IntEnum):
    """What a stretch of text is, which decides how much its tokens count in the loss."""

    CONTEXT = 0
    ANSWER = 1
    TEXT = 2


@dataclass(frozen=True)
class Part:
    """A stretch of text with one role."""

    text: str
    role: Role


@dataclass
class Example:
    """A root (the document) and branches, each of which sees the root and itself only."""

    root: list[Part]
    branches: list[list[Part]]


CHAT: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("Hello", "Hi", "Hi there", "Hey", "Good morning", "Good evening", "hello!", "hi",
         "Hello there!", "Good afternoon", "Hey you", "Greetings"),
        ("Hello! What would you like to know?", "Hi! Ask me about your documents.",
         "Hello! How can I help you?"),
    ),
    (
        ("Thanks", "Thank you", "Thanks a lot!", "thank you very much", "Great, thanks", "Cheers",
         "Perfect, thank you.", "That helps, thanks."),
        ("You are welcome.", "Glad to help.", "You're welcome! Anything else?"),
    ),
    (
        ("What can you do?", "Who are you?", "How can you help me?", "What are you?", "help",
         "What do you do?", "What is this?", "Are you a robot?", "How does this work?"),
        ("I answer questions by quoting your documents.",
         "I look up answers in the documents that you give me.",
         "I am a small assistant: I find the sentence in your documents that answers a question."),
    ),
    (
        ("Bye", "Goodbye", "See you later", "Good night", "bye bye", "That's all for today."),
        ("Goodbye!", "See you soon.", "Goodbye! Come back any time."),
    ),
    (
        ("How are you?", "How are you doing?", "How is it going?", "Are you well?"),
        ("I am fine, thank you. What would you like to know?", "All good here. How can I help?"),
    ),
)  # fmt: skip
_ELLIPSES = ("And {}?", "What about {}?", "And what about {}?", "How about {}?", "and {}",
             "And for {}?", "The same for {}?", "And {}, please?")  # fmt: skip


class ExampleSource:
    """Draws examples of every kind in fixed proportions."""

    def __init__(self, facts: FactSource, prose: ProseSource) -> None:
        self.facts = facts
        self.prose = prose

    def draw(self, rng: random.Random) -> Example:
        """One example."""
        roll = rng.random()
        if roll < 0.03:
            return Example([Part(self.prose.passage(rng, 700), Role.TEXT)], [])
        if roll < 0.05:
            return self._without_document(rng)
        if roll < 0.38:
            return self._from_prose(rng)
        return self._from_facts(rng)

    def _without_document(self, rng: random.Random) -> Example:
        branches: list[list[Part]] = []
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.6:
                doc = self.facts.document(rng)
                asked = self.facts.question(doc, rng.choice(doc.facts), rng)
                branches.append(turn(asked or "What is the code?", DECLINE))
            else:
                branches.append(chat_turn(rng))
        return Example([], branches)

    def _from_prose(self, rng: random.Random) -> Example:
        passage, pairs = self.prose.questions(rng)
        return self._assemble(passage, pairs, rng)

    def _from_facts(self, rng: random.Random) -> Example:
        doc = self.facts.document(rng)
        if rng.random() < SINGLE_SENTENCES:
            return self._from_one_sentence(doc, rng)
        pairs: list[tuple[str, str]] = []
        wanted = rng.choice((3, 4, 5, 6))
        for _ in range(wanted):
            fact = rng.choice(doc.facts)
            question = self.facts.question(doc, fact, rng)
            if question:
                pairs.append((question, fact.sentence))
        example = self._assemble(doc.text, pairs, rng)
        if rng.random() < 0.12:
            follow = self._follow_up(doc, rng)
            if follow:
                example.branches.append(follow)
        return example

    def _from_one_sentence(self, doc: Document, rng: random.Random) -> Example:
        """A document of one sentence, as the retrieval finds them: it is quoted, never declined."""
        fact = rng.choice(doc.facts)
        asked = (self.facts.question(doc, fact, rng) for _ in range(3))
        branches = [turn(question, fact.sentence) for question in asked if question]
        return Example([Part(DOC + fact.sentence, Role.CONTEXT)], branches)

    def _follow_up(self, doc: Document, rng: random.Random) -> list[Part] | None:
        """Two turns; the second may be elliptical when two facts share their relation."""
        first = rng.choice(doc.facts)
        question = self.facts.question(doc, first, rng)
        others = [fact for fact in doc.facts if fact.sentence != first.sentence]
        if question is None or not others:
            return None
        second = rng.choice(others)
        same = [fact for fact in others if fact.schema is first.schema]
        follow: str | None = None
        if same:
            second = rng.choice(same)
            follow = self._ellipsis(first, second, question, rng)
        follow = follow or self.facts.question(doc, second, rng)
        if follow is None:
            return None
        return turn(question, first.sentence) + turn(follow, second.sentence)

    @staticmethod
    def _ellipsis(first: Fact, second: Fact, question: str, rng: random.Random) -> str | None:
        for slot, value in first.values.items():
            other = second.values[slot]
            if value.text in question and len(value.text) > 3 and other.text != value.text:
                return rng.choice(_ELLIPSES).format(other.in_question(rng))
        return None

    def _assemble(self, text: str, pairs: list[tuple[str, str]], rng: random.Random) -> Example:
        branches: list[list[Part]] = []
        raw = rng.random() < 0.1
        for question, answer in pairs:
            branches.append(raw_turn(question, answer) if raw else turn(question, answer))
        roll = rng.random()
        if roll < 0.06:
            other = self.facts.document(rng)
            asked = self.facts.question(other, rng.choice(other.facts), rng)
            if asked and not _shares_words(asked, text):
                branches.append(raw_turn(asked, DECLINE) if raw else turn(asked, DECLINE))
        elif roll < 0.08:
            branches.append(chat_turn(rng))
        return Example([Part(DOC + text, Role.CONTEXT)], branches)


def _shares_words(question: str, text: str) -> bool:
    words = {word.strip("?.,'").lower() for word in question.split() if len(word) > 4}
    lower = text.lower()
    return sum(word in lower for word in words) > 1


def turn(question: str, answer: str) -> list[Part]:
    """A question and its answer in the chat form."""
    return [
        Part(f"{USER}{question}{ASSISTANT}", Role.CONTEXT),
        Part(f"{answer}{END}", Role.ANSWER),
    ]


def raw_turn(question: str, answer: str) -> list[Part]:
    """A question and its answer in the plain completion form."""
    return [
        Part(f"\n\nQuestion: {question}\nAnswer:", Role.CONTEXT),
        Part(f" {answer}{END}", Role.ANSWER),
    ]


def chat_turn(rng: random.Random) -> list[Part]:
    """Small talk."""
    asked, replies = rng.choice(CHAT)
    return turn(rng.choice(asked), rng.choice(replies))
