"""Attention targets, known to the generator of examples and supervised in some heads.

Each document token has the start of its sentence, each token of a conversation the sentence that
answers it, and each answer token its place in the document. Without these hints the network has to
discover three hops at once, and for millions of tokens it picks sentences at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from tokenizers import Tokenizer

from training.data.special import DOC, END

NO_HINT = -1
START_WIDTH = 8


@lru_cache(maxsize=4)
def _marks(tokenizer: Tokenizer) -> tuple[frozenset[int], frozenset[int], int, int, int]:
    vocabulary = tokenizer.get_vocab()
    ends = frozenset(i for t, i in vocabulary.items() if t.strip("\"'”’)")[-1:] in (".", "!", "?"))
    breaks = frozenset(i for t, i in vocabulary.items() if "Ċ" in t)
    return ends, breaks, vocabulary["Ġ"], vocabulary[DOC], vocabulary[END]


def find(needle: list[int], hay: list[int]) -> int:
    """Where a list of ids begins in another, or ``NO_HINT``."""
    if not needle:
        return NO_HINT
    for at in range(len(hay) - len(needle) + 1):
        if hay[at] == needle[0] and hay[at : at + len(needle)] == needle:
            return at
    return NO_HINT


@dataclass
class Hints:
    """For every token the span to look at, and the place of the token that comes next."""

    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    pointer: list[int] = field(default_factory=list)

    def add_document(self, tokens: list[int], tokenizer: Tokenizer) -> None:
        """Every token looks at the start of its sentence or line."""
        ends, breaks, space, doc, _ = _marks(tokenizer)
        start = 0
        for index in range(len(tokens)):
            before = tokens[index - 1] if index else doc
            gap = before == space and index > 1 and tokens[index - 2] in ends
            if before == doc or before in breaks or gap:
                start = index
            self.low.append(start)
            self.high.append(min(start + START_WIDTH, index + 1))
            self.pointer.append(NO_HINT)

    def add_branch(
        self, tokens: list[int], answers: list[int], document: list[int], tokenizer: Tokenizer
    ) -> None:
        """Every token looks at the sentence of the next answer, an answer copies from there."""
        _, _, space, _, end = _marks(tokenizer)
        size = len(tokens)
        low, high, pointer = [NO_HINT] * size, [NO_HINT] * size, [NO_HINT] * size
        turn_start = index = 0
        while index < size:
            if not answers[index]:
                index += 1
                continue
            stop = index
            while stop < size and answers[stop]:
                stop += 1
            first = index + (tokens[index] == space)
            last = stop - (tokens[stop - 1] == end)
            at = find(tokens[first:last], document)
            if at != NO_HINT:
                low[turn_start:stop] = [at] * (stop - turn_start)
                high[turn_start:stop] = [at + last - first] * (stop - turn_start)
                for place in range(first, last):
                    pointer[place - 1] = at + place - first
            turn_start = index = stop
        self.low += low
        self.high += high
        self.pointer += pointer

    def shifted(self, offset: int) -> np.ndarray:
        """The hints as an array, for a piece that begins at this place of its row."""
        array = np.array([self.low, self.high, self.pointer], dtype=np.int32)
        return np.where(array == NO_HINT, NO_HINT, array + offset)
