"""A model's chat template: what it renders of a conversation, and where documents go in it.

Without a document the prompt is what the template renders, token for token. A document is a system
message in front of a conversation that has none, replacing the template's own; if the client gives
a system message, it comes before the client's instructions there; and if a template has no system
message, it begins the first question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from itertools import takewhile
from operator import eq
from typing import Any

from dragon.errors import ConfigurationError, InvalidRequestError
from dragon.inference.rows import Begins
from dragon.inference.tools import CallFormat, Tool, ToolCall, form_of

# A model without a chat template (OPT and other base models) is prompted in plain text.
PLAIN_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content }}\n\n"
    "{% elif m.role == 'user' %}Question: {{ m.content }}\n"
    "{% else %}Answer: {{ m.content }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}Answer:{% endif %}"
)
# Stands in for a document while a template is analysed; no template rewrites a run of letters.
_SENTINEL = "QzDocumentzQ"
_THINK = "<think>"
_VARIABLES = re.compile(r"\b(?:enable_thinking|thinking|reasoning_effort)\b")


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is system, user, assistant or tool.

    An assistant's turn may have tool `calls`, and the `reasoning` before it; a tool's turn answers
    the call with the id `answers`. `name` is the speaker, if the client gives one.
    """

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    reasoning: str = ""
    name: str = ""

    def described(self) -> dict[str, Any]:
        """The turn in the form that chat templates take."""
        given = {
            "tool_calls": [call.described() for call in self.calls],
            "tool_call_id": self.answers,
            "reasoning_content": self.reasoning,
            "name": self.name,
        }
        given = {name: value for name, value in given.items() if value}
        return {"role": self.role, "content": self.content, **given}


@dataclass(frozen=True)
class Chat:
    """Tokens of a conversation, and what they begin with, which decides what rows they follow."""

    tokens: list[int]
    begins: Begins


@dataclass(frozen=True)
class Rendering:
    """How to render a conversation: with `tools`, and with the template's own variables.

    `continued`: the last turn is the assistant's, to be continued; else the template begins the
    assistant's next turn if `begun`.
    """

    tools: tuple[Tool, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    continued: bool = False
    begun: bool = True


@dataclass(frozen=True)
class Opening:
    """Constant tokens around a document, and the tokens in their place without one.

    `start` is the text of the tokens without a document; `added`: it contains a system message of
    the template's own.
    """

    before: tuple[int, ...]
    close: tuple[int, ...]
    bare: tuple[int, ...]
    start: str
    added: bool


Encode = Callable[[str], list[int]]
Place = Callable[[Sequence[Message]], list[Message]]
_QUESTION = [Message("user", "x")]
_NEAR = 40  # characters around a call's name
_CALLING = (Tool(_SENTINEL),)
_CALLED = [*_QUESTION, Message("assistant", "", (ToolCall(_SENTINEL, "{}"),)), *_QUESTION]
_TALK = [*_QUESTION, Message("assistant", "y"), Message("user", "z")]
_OWN = Message("system", "w")
_DOCUMENT = Message("system", _SENTINEL)
_BETWEEN = "\n\n"
_NO_PLACE = "the model's chat template has no place for a system message or a document"


class ChatTemplate:
    """Renders conversations, and knows what surrounds a document in front of them.

    `lead` are the tokens before everything, for a model without a template.
    """

    def __init__(self, backend: Any, encode: Encode, lead: Sequence[int] = ()) -> None:
        self._backend = backend
        self._encode = encode
        self._lead = tuple(lead)
        self._template: str = backend.chat_template or PLAIN_TEMPLATE
        self._of_day = lru_cache(16)(self._opening)

    @cached_property
    def form(self) -> CallFormat | None:
        """How tool calls are written; None if the template has none, or in an unknown form."""
        try:
            offered = self.render(_QUESTION, Rendering(_CALLING))
            called = self.render(_CALLED, Rendering(_CALLING))
        except InvalidRequestError:
            return None
        if _SENTINEL not in offered or called.count(_SENTINEL) <= offered.count(_SENTINEL):
            return None
        at = called.rindex(_SENTINEL)
        return form_of(called[max(0, at - _NEAR) : at + len(_SENTINEL) + _NEAR])

    @property
    def reasons(self) -> bool:
        """Whether the model reasons before it answers, between `<think>` and `</think>`."""
        return _THINK in self._template

    @property
    def variables(self) -> frozenset[str]:
        """The variables the template reads that switch reasoning or set its effort."""
        return frozenset(_VARIABLES.findall(self._template))

    def chat(self, messages: Sequence[Message], rendering: Rendering = Rendering()) -> Chat:
        """Render a conversation after what is in a row.

        Raises `InvalidRequestError` if the template refuses the messages or the tools,
        `ConfigurationError` if it has no place for a document.
        """
        text = self._whole(messages, rendering)
        own = messages[0].role == "system"
        begins = Begins.TOOLS if rendering.tools else Begins.TURNS
        if own:
            begins = Begins.BOTH if rendering.tools else Begins.SYSTEM
        opening = self.opening(begins)
        if not text.startswith(opening.start) or (own and opening.added):
            begins, opening = Begins.ALL, self.opening(Begins.ALL)
        tokens = [*self._lead, *self._encode(text)]
        if tuple(tokens[: len(opening.bare)]) == opening.bare:
            return Chat(tokens[len(opening.bare) :], begins)
        # Instructions that begin with a line break share a token with what precedes them.
        return Chat(self._encode(text.removeprefix(opening.start)), begins)

    def opening(self, begins: Begins) -> Opening:
        """The tokens around a document; a template may write the date there."""
        return self._of_day(begins, date.today())

    def render(self, messages: Sequence[Message], rendering: Rendering = Rendering()) -> str:
        """The text of a conversation; raises `InvalidRequestError` if the template refuses it."""
        try:
            rendered: str = self._backend.apply_chat_template(
                [message.described() for message in messages],
                tools=[tool.described() for tool in rendering.tools] or None,
                chat_template=self._template,
                add_generation_prompt=rendering.begun and not rendering.continued,
                continue_final_message=rendering.continued,
                tokenize=False,
                **rendering.variables,
            )
        except Exception as error:  # jinja raises whatever the template's author chose
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error
        return rendered

    def _whole(self, messages: Sequence[Message], rendering: Rendering) -> str:
        """Render a conversation; its instructions go to the first question if they are refused."""
        own = _instructions(messages)
        try:
            return self.render(messages, rendering)
        except InvalidRequestError:
            if not own:
                raise
        rest = messages[len(own) :]
        if len(own) > 1 and not self._refuses_instructions:
            return self.render([_joined("system", own), *rest], rendering)
        if not rest or rest[0].role != "user":
            raise InvalidRequestError(
                "messages: a conversation with this model begins with a user message",
                param="messages",
            )
        return self.render([_joined("user", [*own, rest[0]]), *rest[1:]], rendering)

    @cached_property
    def _refuses_instructions(self) -> bool:
        try:
            self.render([_OWN, *_QUESTION])
        except InvalidRequestError:
            return True
        return False

    def _opening(self, begins: Begins, day: date) -> Opening:
        """Derived from what the template renders with a document and without."""
        if begins is Begins.TURNS:
            try:
                return self._constant(_as_system, [], ())
            except (InvalidRequestError, ConfigurationError):
                return self._constant(_in_question, [], ())
        turns = self.opening(Begins.TURNS)
        if begins is Begins.ALL:
            first = self._backend.bos_token or ""
            once = self.render(_TALK).count(first) == 1 and turns.start.startswith(first)
            start = first if first and once else ""
            bare = (*self._lead, *self._encode(start))
            return Opening(bare, tuple(self._encode(_BETWEEN)), bare, start, added=False)
        own = [] if begins is Begins.TOOLS else [_OWN]
        tools = () if begins is Begins.SYSTEM else _CALLING
        try:
            return self._constant(_as_system, own, tools)
        except (InvalidRequestError, ConfigurationError):
            # The template moves instructions, or makes them part of the first question.
            return turns if turns.close else self.opening(Begins.ALL)

    def _constant(self, place: Place, own: list[Message], tools: tuple[Tool, ...]) -> Opening:
        """The tokens around a document, if any conversation has the same.

        Raises `ConfigurationError` if they vary.
        """
        found = {self._between(place, [*own, *talk], tools) for talk in (_QUESTION, _TALK)}
        if len(found) > 1:
            raise ConfigurationError(_NO_PLACE)
        return found.pop()

    def _between(self, place: Place, messages: list[Message], tools: tuple[Tool, ...]) -> Opening:
        rendering = Rendering(tools)
        without = self._whole(messages, rendering)
        start, found, after = self.render(place(messages), rendering).partition(_SENTINEL)
        if not found:
            raise ConfigurationError(_NO_PLACE)
        before = (*self._lead, *self._encode(start))
        whole, rest = [*self._lead, *self._encode(without)], self._encode(after)
        # The end that both share must not reach into what precedes the document.
        most = len(whole) - (len(before) if tuple(whole[: len(before)]) == before else 0)
        same = min(most, sum(takewhile(bool, map(eq, reversed(whole), reversed(rest)))))
        bare = whole[: len(whole) - same]
        spans = self._backend.backend_tokenizer.encode(without, add_special_tokens=False).offsets
        text = without[: spans[len(spans) - same][0]] if same else without
        close = rest[: len(rest) - same]
        return Opening(before, tuple(close), tuple(bare), text, added=not start.startswith(text))


def _as_system(messages: Sequence[Message]) -> list[Message]:
    own = _instructions(messages)
    return [_joined("system", [_DOCUMENT, *own]), *messages[len(own) :]]


def _in_question(messages: Sequence[Message]) -> list[Message]:
    """At the beginning of the first question."""
    return [_joined("user", [_DOCUMENT, messages[0]]), *messages[1:]]


def _instructions(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role == "system", messages))


def _joined(role: str, messages: Sequence[Message]) -> Message:
    return Message(role, _BETWEEN.join(message.content for message in messages))
