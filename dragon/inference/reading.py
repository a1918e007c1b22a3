"""The parts of an answer: reasoning before it, text, and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from dragon.inference.tools import CallReader, Form, ToolCall

BEGIN, END = "<think>", "</think>"


@dataclass(frozen=True)
class Reading:
    """How to read an answer: calls in their `form`, if any, and reasoning before it.

    A model that `reasons` may think first; if it has `begun`, the prompt ends inside its reasoning.
    """

    form: Form | None = None
    reasons: bool = False
    begun: bool = False


PLAIN = Reading()
"""The whole answer is text."""


@dataclass(frozen=True)
class Said:
    """An answer, or a piece of one."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.calls or self.reasoning)


class _At(Enum):
    START = auto()  # it may begin to reason
    THOUGHT_START = auto()  # leading white space is dropped
    THOUGHT = auto()
    TEXT_START = auto()  # white space after the reasoning is dropped
    TEXT = auto()


class AnswerReader:
    """Parses the text of an answer as it comes."""

    def __init__(self, reading: Reading) -> None:
        self._calls = None if reading.form is None else CallReader(reading.form)
        self._held = ""
        self._at = _At.TEXT
        if reading.reasons:
            self._at = _At.THOUGHT_START if reading.begun else _At.START

    def push(self, text: str) -> Said:
        """What has become certain with this text."""
        said, reasoning = self._split(text, last=False)
        if self._calls is None:
            return Said(said, (), reasoning)
        text, calls = self._calls.push(said)
        return Said(text, calls, reasoning)

    def finish(self) -> Said:
        """What was held back; a call that was cut off counts as text."""
        said, reasoning = self._split("", last=True)
        if self._calls is None:
            return Said(said, (), reasoning)
        text, calls = self._calls.push(said)
        rest, more = self._calls.finish()
        return Said(text + rest, [*calls, *more], reasoning)

    def _split(self, text: str, *, last: bool) -> tuple[str, str]:
        """Separate text and calls from reasoning."""
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
                # White space is part of the reasoning if more of it follows.
                kept = len(reasoning[: len(reasoning) - _overlap(reasoning)].rstrip())
                reasoning, self._held = reasoning[:kept], reasoning[kept:]
            else:
                reasoning = reasoning.rstrip()
        if self._at is _At.TEXT_START and (text := text.lstrip()):
            self._at = _At.TEXT
        return text, reasoning


def _overlap(text: str) -> int:
    """How many characters at the end may begin the end tag of reasoning."""
    most = min(len(text), len(END) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(END[:n])), 0)


def read(text: str, reading: Reading) -> Said:
    """The text, calls and reasoning of a complete answer."""
    reader = AnswerReader(reading)
    first, rest = reader.push(text), reader.finish()
    return Said(
        first.text + rest.text, [*first.calls, *rest.calls], first.reasoning + rest.reasoning
    )
