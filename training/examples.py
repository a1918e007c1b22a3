"""Training examples of the judge: a question, a passage, and the lines that answer, if any."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dragon.retrieval.judge import MOST_TOKENS, OUTSIDE, EncodedPair, Pairs, Piece
from training.texts import Text, same

_UNMARKED = 0.3
_HEADED = 0.7


@dataclass(frozen=True)
class Passage:
    """A text in tokens: its pieces in order, and what each line stands under."""

    pieces: tuple[Piece, ...]
    contexts: tuple[list[int], ...]

    @classmethod
    def of(cls, text: Text, pairs: Pairs) -> Passage:
        """A text cut as in the product; what lies between the lines belongs to none of them."""
        pieces: list[Piece] = []
        at = 0
        lines = text.lines()
        for number, line in enumerate(lines):
            if between := pairs.tokens(text.text[at : line.start]):
                pieces.append((OUTSIDE, between))
            pieces.append((number, pairs.tokens(line.text)))
            at = line.end
        return cls(tuple(pieces), tuple(pairs.tokens(line.context) for line in lines))

    def part(self, first: int, last: int) -> list[Piece]:
        """The lines from `first` to `last`, and what lies between them."""
        inside = [n for n, (line, _) in enumerate(self.pieces) if first <= line <= last]
        return list(self.pieces[inside[0] : inside[-1] + 1]) if inside else []


@dataclass(frozen=True)
class Example:
    """An encoded question and passage, and the lines that answer, if any."""

    encoded: EncodedPair
    answers: tuple[int, ...]


class Source:
    """Draws passages for questions: the text itself, a part of it, or among others like it."""

    def __init__(self, texts: Sequence[Text], pairs: Pairs, most: int = MOST_TOKENS) -> None:
        self.texts = list(texts)
        self.passages = [Passage.of(text, pairs) for text in texts]
        self.pairs, self.most = pairs, most
        self.questions = [  # index of the text, question, answer
            (place, question, answer)
            for place, text in enumerate(texts)
            for question, answer in [*text.asked, *((each, "") for each in text.unasked)]
        ]
        self._mark = pairs.tokens("?")
        self.encoded = [pairs.tokens(question.rstrip("?. ")) for _, question, _ in self.questions]
        self._lines = [
            [n for n, line in enumerate(texts[place].lines()) if answer and same(line.text, answer)]
            for place, _, answer in self.questions
        ]
        self.near: Sequence[Sequence[int]] = [()] * len(self.questions)
        """For each question, other texts with lines similar to it."""

    def draw(self, number: int, rng: random.Random) -> Example:
        place = self.questions[number][0]
        answers = self._lines[number]
        kind = rng.random()
        if kind < 0.25:
            parts = [self._part(place, self.most, answers, rng)]
        elif kind < 0.4:
            parts = [self._part(place, rng.randint(12, 120), answers, rng)]
        elif kind < 0.9 or not answers:
            room = rng.randint(80, self.most)
            own = self._part(place, rng.randint(room // 3, room), answers, rng)
            parts = [own]
            for other in self._others(number, rng.randint(1, 4), rng):
                left = room - sum(len(piece) for part in parts for _, piece in part[1])
                if left < 12:
                    break
                parts.append(self._part(other, rng.randint(12, left), (), rng))
            rng.shuffle(parts)
        else:
            parts = [
                self._part(other, self.most // 2, (), rng)
                for other in self._others(number, rng.randint(1, 3), rng)
            ]
        return self._joined(number, parts, place, marked=rng.random() >= _UNMARKED)

    def whole(self, number: int) -> Example:
        place, question, _ = self.questions[number]
        parts = [(place, list(self.passages[place].pieces))]
        return self._joined(number, parts, place, marked=question.endswith("?"))

    def _joined(
        self, number: int, parts: Sequence[tuple[int, list[Piece]]], place: int, *, marked: bool
    ) -> Example:
        pieces, origin = list[Piece](), list[tuple[int, int]]()
        for text, part in parts:
            for line, tokens in part:
                own = OUTSIDE
                if line != OUTSIDE:
                    own = len(origin)
                    origin.append((text, line))
                pieces.append((own, tokens))
        question = [*self.encoded[number], *(self._mark if marked else ())]
        encoded = self.pairs.joined(question, pieces, self.most)
        right = {(place, line) for line in self._lines[number]}
        read = origin[: 1 + max(encoded.lines)]
        return Example(encoded, tuple(n for n, line in enumerate(read) if line in right))

    def _others(self, number: int, count: int, rng: random.Random) -> list[int]:
        near, place = self.near[number], self.questions[number][0]
        drawn = [
            rng.choice(near) if near and rng.random() < 0.6 else rng.randrange(len(self.texts))
            for _ in range(count)
        ]
        return [each for each in dict.fromkeys(drawn) if each != place]

    def _part(
        self, place: int, most: int, answers: Sequence[int], rng: random.Random
    ) -> tuple[int, list[Piece]]:
        """Lines of a text in about `most` tokens, with one that answers, if any does."""
        passage = self.passages[place]
        sizes = [len(tokens) for line, tokens in passage.pieces if line != OUTSIDE]
        if not sizes:
            return place, []
        first = last = rng.choice(answers) if answers else rng.randrange(len(sizes))
        size = sizes[first]
        while True:
            ways = [way for way in (first - 1, last + 1) if 0 <= way < len(sizes)]
            ways = [way for way in ways if size + sizes[way] <= most]
            if not ways:
                break
            way = rng.choice(ways)
            size += sizes[way]
            first, last = min(first, way), max(last, way)
        pieces = passage.part(first, last)
        under = passage.contexts[first]
        if under and rng.random() < _HEADED:
            pieces.insert(0, (OUTSIDE, under))
        return place, pieces
