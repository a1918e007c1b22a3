"""Questions that a sentence answers, changed by rule so that it does not any more.

The kinds are those of SQuAD 2.0 (Rajpurkar, Jia and Liang, 2018): another name or number, an
antonym, a negation, another question word, a condition that is not met.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragon.retrieval.answerability import KINDS, names

_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_WORD = re.compile(r"\b[a-z]{4,}\b")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|did|does|do|has|have|had|can|could|will|would|should|may|might)\b( \w+)?"
)
_CONDITIONS = (
    "in {name}", "in {year}", "before {year}", "after {year}", "for {name}", "by {name}",
    "with {name}", "outside of {name}", "of {name}", "instead of {name}", "according to {name}",
    "besides {name}", "from {name}", "during {year}", "at {name}",
)  # fmt: skip


@dataclass
class Spoiler:
    """Spoils questions; `pool` has names of other texts, `nouns` plain words."""

    opposites: dict[str, list[str]]
    pool: Sequence[str]
    nouns: Sequence[str]

    @classmethod
    def load(cls, path: Path, pool: Sequence[str], nouns: Sequence[str]) -> Spoiler:
        """With the antonyms of a file: two groups of words a line, apart by a slash."""
        opposites: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            one, other = ([word.strip() for word in side.split(",")] for side in line.split("/"))
            for here, there in ((one, other), (other, one)):
                for word in here:
                    opposites.setdefault(word, []).extend(there)
        return cls(opposites, pool, nouns)

    def spoil(self, question: str, sentence: str, rng: random.Random) -> str | None:
        """A question like this one that the sentence does not answer, or None if no rule fits."""
        rules: list[Callable[[str, str, random.Random], str | None]] = [
            self._name, self._name, self._number, self._antonym, self._antonym, self._negated,
            self._question_word, self._condition, self._noun,
        ]  # fmt: skip
        rng.shuffle(rules)
        for rule in rules:
            spoilt = rule(question, sentence, rng)
            if spoilt and spoilt != question:
                return spoilt
        return None

    def _name(self, question: str, sentence: str, rng: random.Random) -> str | None:
        found = names(question)
        if not found:
            return None
        name = rng.choice(found)
        others = [one for one in names(sentence) if one not in question and name not in one]
        other = rng.choice(others) if others and rng.random() < 0.4 else rng.choice(self.pool)
        return question.replace(name, other, 1)

    def _number(self, question: str, _: str, rng: random.Random) -> str | None:
        found = [match.group(0) for match in _NUMBER.finditer(question)]
        if not found:
            return None
        number = rng.choice(found)
        digits = list(number)
        places = [i for i, digit in enumerate(digits) if digit.isdigit()]
        for place in rng.sample(places, min(len(places), rng.choice((1, 1, 2)))):
            digits[place] = rng.choice([d for d in "123456789" if d != digits[place]])
        return question.replace(number, "".join(digits), 1)

    def _antonym(self, question: str, _: str, rng: random.Random) -> str | None:
        found = [m for m in re.finditer(r"\b[a-z]+\b", question) if m.group(0) in self.opposites]
        if not found:
            return None
        match = rng.choice(found)
        other = rng.choice(self.opposites[match.group(0)])
        return question[: match.start()] + other + question[match.end() :]

    def _negated(self, question: str, sentence: str, rng: random.Random) -> str | None:
        if rng.random() < 0.5 or re.search(r"\b(?:not|never|no)\b|n't", question + sentence):
            return None
        match = _AUXILIARY.search(question)
        if match is None:
            return None
        end = match.end() if match.group(1) in ("did", "does", "do") else match.end(1)
        return f"{question[:end]} {rng.choice(('not', 'never', 'not'))}{question[end:]}"

    def _question_word(self, question: str, sentence: str, rng: random.Random) -> str | None:
        fitting = [word for word, (_, shows) in KINDS.items() if not shows.search(sentence)]
        match = re.match(r"(?:who|what|where|when|which)\b", question, re.IGNORECASE)
        if not fitting or match is None:
            return None
        return rng.choice(fitting) + question[match.end() :]

    def _condition(self, question: str, sentence: str, rng: random.Random) -> str | None:
        if rng.random() < 0.5 or not question.endswith("?"):
            return None
        name, year = rng.choice(self.pool), str(rng.randint(1200, 2020))
        if name in sentence or year in sentence:
            return None
        return f"{question[:-1]} {rng.choice(_CONDITIONS).format(name=name, year=year)}?"

    def _noun(self, question: str, sentence: str, rng: random.Random) -> str | None:
        shared = [w for w in _WORD.findall(question) if w in sentence and w not in _WH_WORDS]
        if not shared or rng.random() < 0.7:  # many, and it would learn to ask for equal words
            return None
        word = rng.choice(shared)
        return re.sub(rf"\b{word}\b", rng.choice(self.nouns), question, count=1)


_WH_WORDS = frozenset(
    """
    what when where which whom whose many much does with from that this
    """.split()  # noqa: SIM905
)
