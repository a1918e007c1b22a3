"""The rows of one side: what precedes the conversation, and what may follow it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt


class Begins(StrEnum):
    """What a conversation's tokens begin with, which decides what surrounds a document in the row.

    Both sides build the same rows from it.
    """

    TURNS = "turns"  # turns only: a document is a system message, or begins the first question
    SYSTEM = "system"  # the client's own instructions, after the document
    TOOLS = "tools"  # tools, without instructions
    BOTH = "both"
    ALL = "all"  # everything: the template has some other order


@dataclass(frozen=True)
class Row:
    """The tokens before the conversation in one row, and their relevance in nats.

    `document` is the id of its document: its keys and values may be kept as long as that document
    is. `kv`, in the form of `KV.pack`, is given if another side with the same model has computed
    it. `vector` float32 [dim] is its document's embedding, which re-scoring needs. `quotes` are all
    that may be written in it.
    """

    tokens: tuple[int, ...]
    relevance: float
    document: str = ""
    kv: bytes | None = None
    vector: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    quotes: tuple[Quote, ...] = ()


def room_for_document(context: int, conversation: int, answer: int) -> int:
    """Tokens a document may take: it leaves room for the answer, or for half of what is left."""
    left = context - conversation
    return left - min(answer, left // 2 + 1)


Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Quote:
    """A quote's tokens at the beginning of an answer, and after another quote."""

    first: Tokens
    later: Tokens


class Quoting:
    """Has the rows of a quoting model write whole sentences of their own passages, no others.

    `quotes` are those of each row, `ends` the end tokens; a row without quotes writes freely. The
    answer so far consists of quotes of one side's rows, separated by spaces, the last perhaps
    unfinished. A row may continue one of its own quotes, begin one that the answer does not have,
    or end the answer after a complete one. A row that can do none of these has no say: the quote is
    the other side's.
    """

    def __init__(self, quotes: Sequence[Sequence[Quote]], ends: Collection[int]) -> None:
        self._quotes = [tuple(each) for each in quotes]
        self._ends = frozenset(ends)
        self.free = not any(self._quotes)  # no row quotes

    def allowed(self, text: Sequence[int]) -> list[frozenset[int] | None]:
        """The tokens that each row may write after `text`; None if it writes freely."""
        following: list[set[int]] = [set() for _ in self._quotes]
        for used, rest in self._readings(tuple(text), frozenset()):
            for quotes, tokens in zip(self._quotes, following, strict=True):
                for quote in quotes:
                    spelt = quote.later if used else quote.first
                    if quote not in used and len(rest) < len(spelt) and _begins(spelt, rest):
                        tokens.add(spelt[len(rest)])
                if used and not rest:
                    tokens |= self._ends
        return [
            frozenset(tokens) if quotes else None
            for quotes, tokens in zip(self._quotes, following, strict=True)
        ]

    def _readings(
        self, text: Tokens, used: frozenset[Quote]
    ) -> Iterator[tuple[frozenset[Quote], Tokens]]:
        """Sets of complete quotes that the text may begin with, and what follows them."""
        yield used, text
        for quote in {each for quotes in self._quotes for each in quotes} - used:
            spelt = quote.later if used else quote.first
            if _begins(text, spelt):
                yield from self._readings(text[len(spelt) :], used | {quote})


def _begins(text: Tokens, beginning: Tokens) -> bool:
    return text[: len(beginning)] == beginning
