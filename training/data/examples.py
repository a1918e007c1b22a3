"""Training examples: a document with several independent conversations that branch off it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from training.data.copying import repeating, scrambled, with_rare_strings
from training.data.facts import Document, Fact, FactSource
from training.data.instructions import instruction, noise
from training.data.prose import SALAD_QUESTIONS, ProseSource
from training.data.special import ASSISTANT, DOC, END, USER

KINDS = frozenset(
    {"language", "bare", "prose", "facts", "sentence", "quote", "copy", "elsewhere", "instruction"}
)
"""The kinds of examples that a stage mixes; each is a method of `ExampleSource`."""

WORDLESS = (
    "What is the code?", "How much was it?", "Who was that again?", "What was the name?",
    "Which number is it?", "Where was it?", "What do I need?", "What did it cost?", "When is it?",
    "Which one was it?", "What is it called?", "Whom should I ask?", "How many?",
)  # fmt: skip
"""Questions that share no word with their sentence, which is quoted all the same."""

PASSAGES = (0, 0, 1, 2, 3)
"""How many passages stand before running text."""

DECLINE = "I could not find that in the documents."


class Role(IntEnum):
    """The role of a piece of text, which decides how much its tokens count in the loss.

    An answer is chosen by its first tokens; a quote, of the one sentence there is, is not.
    """

    CONTEXT = 0
    ANSWER = 1
    TEXT = 2
    QUOTE = 3


@dataclass(frozen=True)
class Part:
    """A piece of text with one role."""

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
    """Draws examples of every kind."""

    def __init__(self, facts: FactSource, prose: ProseSource) -> None:
        self.facts = facts
        self.prose = prose
        self._makers: dict[str, Callable[[random.Random], Example]] = {
            "language": self.language, "bare": self.bare, "prose": self.several_sentences,
            "facts": self.several_facts, "sentence": self.sentence, "quote": self.quote,
            "copy": self.copy, "elsewhere": self.elsewhere, "instruction": self.instruction,
        }  # fmt: skip
        assert self._makers.keys() == KINDS

    def draw(self, rng: random.Random, mixture: Mapping[str, float]) -> Example:
        """One example of a kind chosen by the weights of `mixture`."""
        kind = rng.choices(list(mixture), list(mixture.values()))[0]
        return self._makers[kind](rng)

    def language(self, rng: random.Random) -> Example:
        """Running text, often after passages from near it, laid out as the engine's rows are."""
        passages, text = self.prose.excerpts(rng, rng.choice(PASSAGES))
        root = [Part(text, Role.TEXT)]
        if passages:
            root.insert(0, Part(DOC + " ".join(passages) + "\n\n", Role.CONTEXT))
        return Example(root, [])

    def bare(self, rng: random.Random) -> Example:
        """No document: small talk, or a question that cannot be answered."""
        branches: list[list[Part]] = []
        for _ in range(rng.randint(1, 3)):
            roll = rng.random()
            if roll < 0.25:
                branches.append(chat_turn(rng))
            elif roll < 0.6:
                branches.append(turn(instruction(self.prose, rng), DECLINE))
            elif roll < 0.75:
                branches.append(turn(noise(rng), DECLINE))
            else:
                doc = self.facts.document(rng)
                asked = self.facts.question(doc, rng.choice(doc.facts), rng)
                branches.append(turn(asked or "What is the code?", DECLINE))
        return Example([], branches)

    def several_sentences(self, rng: random.Random) -> Example:
        """Real sentences, one of which answers."""
        passage, pairs = self.prose.questions(rng)
        return self._assemble(passage, pairs, rng)

    def several_facts(self, rng: random.Random) -> Example:
        """Generated facts, one of which answers."""
        doc = self.facts.document(rng)
        pairs: list[tuple[str, str]] = []
        wanted = rng.choice((3, 4, 5, 6))
        for _ in range(wanted):
            fact = rng.choice(doc.facts)
            question = self.facts.question(doc, fact, rng)
            if question:
                pairs.append((question, fact.sentence))
        example = self._assemble(doc.text, pairs, rng)
        if rng.random() < 0.2:
            follow = self._follow_up(doc, rng)
            if follow:
                example.branches.append(follow)
        return example

    def sentence(self, rng: random.Random) -> Example:
        """One generated fact, as retrieval finds it: it is quoted, never declined."""
        doc = self.facts.document(rng)
        fact = rng.choice(doc.facts)
        asked = (self.facts.question(doc, fact, rng) for _ in range(2))
        return _quoting(fact.sentence, [question for question in asked if question])

    def quote(self, rng: random.Random) -> Example:
        """One real sentence, long ones too."""
        sentence, question = self.prose.single(rng)
        return _quoting(sentence, [question])

    def copy(self, rng: random.Random) -> Example:
        """One sentence that only copying gets right."""
        roll = rng.random()
        if roll < 0.3:
            text, distinctive = with_rare_strings(self.prose.sentence(rng), rng)
        elif roll < 0.6:
            doc = self.facts.document(rng)
            text, distinctive = with_rare_strings(rng.choice(doc.facts).sentence, rng)
        elif roll < 0.8:
            text, distinctive = repeating(self.prose.paragraph(rng).split(), rng)
        else:
            text, distinctive = scrambled(self.prose.vocabulary, rng)
        asked = rng.choice(SALAD_QUESTIONS).format(rng.choice(distinctive))
        return _quoting(text, [asked if rng.random() < 0.7 else rng.choice(WORDLESS)])

    def elsewhere(self, rng: random.Random) -> Example:
        """A sentence of a document, and a question that another one of it answers.

        What the row says counts in the mixture: it has the answer's words predicted as well as the
        question and the language allow, so it neither insists on its own sentence nor outvotes the
        row that knows.
        """
        doc = self.facts.document(rng)
        fact = rng.choice(doc.facts)
        others = [one for one in doc.facts if one.sentence != fact.sentence]
        question = self.facts.question(doc, fact, rng)
        if not others or not question:
            return self.sentence(rng)
        root = [Part(DOC + rng.choice(others).sentence, Role.CONTEXT)]
        return Example(root, [turn(question, fact.sentence, Role.QUOTE)])

    def instruction(self, rng: random.Random) -> Example:
        """A document that has nothing to do with what is asked for."""
        text = self.prose.passage(rng, rng.choice((120, 240, 320)))
        asked = instruction(self.prose, rng) if rng.random() < 0.8 else noise(rng)
        return Example([Part(DOC + text, Role.CONTEXT)], [turn(asked, DECLINE)])

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
        if rng.random() < 0.03:
            branches.append(chat_turn(rng))
        return Example([Part(DOC + text, Role.CONTEXT)], branches)


def _quoting(sentence: str, questions: list[str]) -> Example:
    branches = [turn(question, sentence, Role.QUOTE) for question in questions]
    return Example([Part(DOC + sentence, Role.CONTEXT)], branches)


def turn(question: str, answer: str, role: Role = Role.ANSWER) -> list[Part]:
    """A question and its answer in the chat form."""
    return [
        Part(f"{USER}{question}{ASSISTANT}", Role.CONTEXT),
        Part(f"{answer}{END}", role),
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
