"""How a model answers from passages: that decides what is searched, and what its prompt holds."""

from __future__ import annotations

from enum import StrEnum


class Answers(StrEnum):
    """The two kinds of models, and what experiments do with either."""

    QUOTES = "quotes"  # rows of a sentence, to whose words the model is held
    WORDS = "words"  # numbered passages in one row, from which it writes in words of its own
    ROWS = "rows"  # rows of a sentence, from which it writes freely

    @classmethod
    def of(cls, setting: str | None, *, quotes: bool) -> Answers:
        """What is set, or else what the model's configuration says."""
        return cls(setting) if setting else cls.QUOTES if quotes else cls.WORDS

    @property
    def passages(self) -> int:
        """How many passages a side uses unless it is told."""
        return 5 if self is Answers.WORDS else 2

    def on(self, *, raw: bool) -> Answers:
        """How a prompt is answered: a `raw` one, a text to continue, has a row a passage."""
        return Answers.ROWS if raw and self is Answers.WORDS else self
