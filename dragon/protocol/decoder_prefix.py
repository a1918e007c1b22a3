"""What a decoder was fed, and how much of it matches the current text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragon.protocol.messages import Work


@dataclass
class DecoderPrefix:
    """The generated tokens a decoder holds; the first `valid` of them match the text."""

    tokens: list[int] = field(default_factory=list)
    valid: int = 0

    def feed(self, known: Sequence[int], ahead: Sequence[int], version: int) -> Work:
        """Work that feeds the missing part of `known` and the tokens expected `ahead` of it.

        The last known token is fed again if the distribution after it is needed once more.
        """
        keep = max(0, min(self.valid, len(known) - 1))
        tokens = (*known[keep:], *ahead)
        self.tokens[keep:] = tokens
        self.valid = len(self.tokens)
        return Work(keep, tokens, 1 + len(ahead), version)

    def settle(self, position: int, token: int) -> None:
        """The text has `token` at `position`: a different token fed there is no longer valid."""
        if position < self.valid and self.tokens[position] != token:
            self.valid = position

    def abandon(self, work: Work) -> None:
        """The work was aborted half-way."""
        self.valid = min(self.valid, work.keep)
