"""Exact quotes: a row of a quoting model writes sentences of its own passage, whole, and no others.

The answer so far is quotes of one side's rows, with a space in between, the last perhaps still
being written. A row may go on with a token that continues one of its own quotes, begin another
that the answer does not have, or end the answer after a whole one. A row that can do none of these
has no say: it is the other side's quote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Quote:
    """A quote as an answer begins with it, and as it stands behind another one."""

    first: Tokens
    later: Tokens


class Quoting:
    """What the rows of a side may write: `quotes` holds those of each row; `ends` end an answer.

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
        """The tokens that each row may write after `text`; None where it writes freely."""
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
        """Whole quotes that the text may begin with, and what it has behind them."""
        yield used, text
        for quote in {each for quotes in self._quotes for each in quotes} - used:
            spelt = quote.later if used else quote.first
            if _begins(text, spelt):
                yield from self._readings(text[len(spelt) :], used | {quote})


def _begins(text: Tokens, beginning: Tokens) -> bool:
    return text[: len(beginning)] == beginning
