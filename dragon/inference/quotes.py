"""Exact quotes: a row of a quoting model writes whole sentences of its own passage, no others.

The answer so far consists of quotes of one side's rows, separated by spaces, the last perhaps
unfinished. A row may continue one of its own quotes, begin one that the answer does not have, or
end the answer after a complete one. A row that can do none of these has no say: the quote is the
other side's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Quote:
    """A quote's tokens at the beginning of an answer, and after another quote."""

    first: Tokens
    later: Tokens


class Quoting:
    """What the rows of a side may write: `quotes` are those of each row, `ends` the end tokens.

    A row without quotes writes freely.
    """

    def __init__(self, quotes: Sequence[Sequence[Quote]], ends: Collection[int]) -> None:
        self._quotes = [tuple(each) for each in quotes]
        self._ends = frozenset(ends)

    @cached_property
    def free(self) -> bool:
        """Whether no row quotes."""
        return not any(self._quotes)

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
