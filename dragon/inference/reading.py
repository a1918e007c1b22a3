"""What an answer is made of: reasoning before it, what is said, and what is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from dragon.inference.tools import CallReader, Form, ToolCall

BEGIN, END = "<think>", "</think>"


@dataclass(frozen=True)
class Reading:
    """How an answer is read: calls in their `form`, if there are any, and reasoning before it.

    A model that `reasons` may think first; where it has `begun`, the prompt ends in its thoughts.
    """

    form: Form | None = None
    reasons: bool = False
    begun: bool = False


PLAIN = Reading()
"""All of an answer is what is said."""


@dataclass(frozen=True)
class Said:
    """An answer, or a piece of one."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.calls or self.reasoning)


class _At(Enum):
    START = auto()  # it may begin to think
    THOUGHT_START = auto()  # white space is left out
    THOUGHT = auto()
    TEXT_START = auto()  # white space behind its thoughts is left out
    TEXT = auto()


class AnswerReader:
    """Reads the text of an answer as it comes."""

    def __init__(self, reading: Reading) -> None:
        self._calls = None if reading.form is None else CallReader(reading.form)
        self._held = ""
        self._at = _At.TEXT
        if reading.reasons:
            self._at = _At.THOUGHT_START if reading.begun else _At.START

    def push(self, text: str) -> Said:
        """What is certain with this text."""
        said, reasoning = self._split(text, last=False)
        if self._calls is None:
            return Said(said, (), reasoning)
        text, calls = self._calls.push(said)
        return Said(text, calls, reasoning)

    def finish(self) -> Said:
        """What was held back; a call that was cut off is text."""
        said, reasoning = self._split("", last=True)
        if self._calls is None:
            return Said(said, (), reasoning)
        text, calls = self._calls.push(said)
        rest, more = self._calls.finish()
        return Said(text + rest, [*calls, *more], reasoning)

    def _split(self, text: str, *, last: bool) -> tuple[str, str]:
        """What is said or called, and what is thought."""
        text, self._held = self._held + text, ""
        reasoning = ""
        if self._at is _At.START:
            rest = text.lstrip()
            if rest.startswith(BEGIN):
                self._at, text = _At.THOUGHT_START, rest.removeprefix(BEGIN)
            elif BEGIN.startswith(rest) and not last:
                self._held = text
                return "", ""
            else:
                self._at = _At.TEXT
        if self._at in (_At.THOUGHT_START, _At.THOUGHT):
            reasoning, ended, text = text.partition(END)
            if self._at is _At.THOUGHT_START:
                reasoning = reasoning.lstrip()
                self._at = _At.THOUGHT if reasoning else _At.THOUGHT_START
            if ended:
                self._at = _At.TEXT_START
                reasoning = reasoning.rstrip()
            elif not last:
                # White space belongs to it if more of it follows.
                kept = len(reasoning[: len(reasoning) - _overlap(reasoning)].rstrip())
                reasoning, self._held = reasoning[:kept], reasoning[kept:]
            else:
                reasoning = reasoning.rstrip()
        if self._at is _At.TEXT_START and (text := text.lstrip()):
            self._at = _At.TEXT
        return text, reasoning


def _overlap(text: str) -> int:
    """How many characters at its end may begin the end of thoughts."""
    most = min(len(text), len(END) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(END[:n])), 0)


def read(text: str, reading: Reading) -> Said:
    """What a whole answer says, calls and thought before."""
    reader = AnswerReader(reading)
    first, rest = reader.push(text), reader.finish()
    return Said(
        first.text + rest.text, [*first.calls, *rest.calls], first.reasoning + rest.reasoning
    )
