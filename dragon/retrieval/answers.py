"""How a model answers from passages: that decides what to search for and what its prompt holds."""

from __future__ import annotations

from enum import StrEnum


class Answers(StrEnum):
    """How models, and experiments with them, answer."""

    LINES = "lines"  # the line that answers, to whose words the built-in model is held
    QUOTES = "quotes"  # a row per sentence, to whose words the model is held
    WORDS = "words"  # numbered passages in one row, from which it writes in its own words
    ROWS = "rows"  # a row per sentence, from which it writes freely

    @classmethod
    def of(cls, setting: str | None, *, quotes: bool) -> Answers:
        """The configured value, or else what the model's configuration says."""
        return cls(setting) if setting else cls.QUOTES if quotes else cls.WORDS

    @property
    def one_row(self) -> bool:
        """Whether everything found goes in one row."""
        return self in (Answers.WORDS, Answers.LINES)

    @property
    def quotes(self) -> bool:
        """Whether an answer has the words of passages, and no others."""
        return self in (Answers.QUOTES, Answers.LINES)

    @property
    def passages(self) -> int:
        """How many passages a side uses by default."""
        return {Answers.WORDS: 5, Answers.LINES: 1}.get(self, 2)

    def on(self, *, raw: bool) -> Answers:
        """How to answer a prompt: a `raw` one, a text to continue, has one row per passage."""
        return Answers.ROWS if raw and self is not Answers.QUOTES else self
