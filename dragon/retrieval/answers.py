"""How a model answers from passages: that decides what is searched, and what its prompt holds."""

from __future__ import annotations

from enum import StrEnum


class Answers(StrEnum):
    """The kinds of models, and what experiments do with them."""

    LINES = "lines"  # a few lines that answer, from which the built-in writer makes a reply
    QUOTES = "quotes"  # rows of a sentence, to whose words the model is held
    WORDS = "words"  # numbered passages in one row, from which it writes in words of its own
    ROWS = "rows"  # rows of a sentence, from which it writes freely

    @classmethod
    def of(cls, setting: str | None, *, quotes: bool) -> Answers:
        """What is set, or else what the model's configuration says."""
        return cls(setting) if setting else cls.QUOTES if quotes else cls.WORDS

    @property
    def one_row(self) -> bool:
        """Whether all that was found stands in one row, and the model writes in its own words."""
        return self in (Answers.WORDS, Answers.LINES)

    @property
    def passages(self) -> int:
        """How many passages a side uses unless it is told."""
        return {Answers.WORDS: 5, Answers.LINES: 3}.get(self, 2)

    def on(self, *, raw: bool) -> Answers:
        """How a prompt is answered: a `raw` one, a text to continue, has a row a passage."""
        return Answers.ROWS if raw and self is not Answers.QUOTES else self
