"""An answer as it comes: from tokens to text, and from text to reasoning, words and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import CallFormat, CallReader, ToolCall, overlap

BEGIN, END = "<think>", "</think>"
_REPLACEMENT = "\ufffd"


class TextStream:
    """Turns tokens into text as they come, never inside a character, and cuts out stop strings.

    A byte-level token may end inside a UTF-8 character, and a stop string may span several tokens:
    text is held back until neither can change it any more.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Sequence[str] = (),
        *,
        with_stop: bool = False,
        special: bool = False,
    ) -> None:
        """`with_stop`: include the stop string in the text; `special`: include special tokens."""
        self._tokenizer = tokenizer
        self._with_stop = with_stop
        self._special = special
        self._stop = tuple(stop)
        self._pending: list[int] = []  # tokens not yet turned into text
        self._context: list[int] = []  # the tokens before: spacing depends on them
        self._held = ""  # text that may be the beginning of a stop string
        self.stopped = False
        self.met: str | None = None  # the stop string that ended it

    def push(self, tokens: Sequence[int], *, final: bool = False) -> str:
        """Text that has become final with these tokens; empty once a stop string was found."""
        if self.stopped:
            return ""
        self._pending.extend(tokens)
        return self._release(self._decode(final=final), final=final)

    def stop(self) -> str:
        """End the text here; return what was held back."""
        text = self.finish()
        self.stopped = True
        return text

    def finish(self) -> str:
        """Return what was held back; an incomplete character becomes U+FFFD."""
        return self.push((), final=True)

    def _decode(self, *, final: bool) -> str:
        before = self._tokenizer.decode(self._context, special=self._special)
        whole = [*self._context, *self._pending]
        text = self._tokenizer.decode(whole, special=self._special)[len(before) :]
        if not text or (text.endswith(_REPLACEMENT) and not final):
            return ""
        self._context, self._pending = self._pending, []
        return text

    def _release(self, text: str, *, final: bool) -> str:
        text = self._held + text
        # The stop string that completes first, however the tokens divide it.
        found = [(text.index(s) + len(s), text.index(s), s) for s in self._stop if s in text]
        if found:
            end, start, self.met = min(found)
            self.stopped = True
            self._held = ""
            return text[: end if self._with_stop else start]
        keep = 0 if final else max((overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


@dataclass(frozen=True)
class Reading:
    """How to read an answer: calls in their `form`, if any, and reasoning before it.

    A model that `reasons` may think first; if it has `begun`, the prompt ends inside its reasoning.
    """

    form: CallFormat | None = None
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

    def push(self, text: str, *, last: bool = False) -> Said:
        """Add text, perhaps the last; return what has become certain with it."""
        said, reasoning = self._split(text, last=last)
        if self._calls is None:
            return Said(said, (), reasoning)
        said, calls = self._calls.push(said)
        if last:
            rest, more = self._calls.finish()
            said, calls = said + rest, [*calls, *more]
        return Said(said, calls, reasoning)

    def finish(self) -> Said:
        """Return what was held back; a call that was cut off counts as text."""
        return self.push("", last=True)

    def _split(self, text: str, *, last: bool) -> tuple[str, str]:
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
                kept = len(reasoning[: len(reasoning) - overlap(reasoning, END)].rstrip())
                reasoning, self._held = reasoning[:kept], reasoning[kept:]
            else:
                reasoning = reasoning.rstrip()
        if self._at is _At.TEXT_START and (text := text.lstrip()):
            self._at = _At.TEXT
        return text, reasoning


def read(text: str, reading: Reading) -> Said:
    return AnswerReader(reading).push(text, last=True)
