"""A model's chat template: what it renders of a conversation, and where documents stand in that.

Without a document the prompt is what the template renders, token for token. A document is a system
message in front of a conversation that has none, and in the place of the template's own; it stands
before the client's own instructions in their system message; and where a template has no system
message it begins the first question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any

from dragon.errors import ConfigurationError, InvalidRequestError
from dragon.inference.rows import Begins
from dragon.inference.tools import Form, Tool, ToolCall, form_of

# A model without a chat template (OPT and other base models) is prompted in plain text.
PLAIN_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content }}\n\n"
    "{% elif m.role == 'user' %}Question: {{ m.content }}\n"
    "{% else %}Answer: {{ m.content }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}Answer:{% endif %}"
)
# Stands in for a document while a template is taken apart; a letter run no template rewrites.
_SENTINEL = "QzDocumentzQ"
_THINK = "<think>"
_VARIABLES = re.compile(r"\b(?:enable_thinking|thinking|reasoning_effort)\b")


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is system, user, assistant or tool.

    An assistant's turn may have `calls` of tools and the `reasoning` before it; a tool's answers
    the call of the id `answers`. `name` is who speaks, if the client says so.
    """

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    reasoning: str = ""
    name: str = ""

    def described(self) -> dict[str, Any]:
        """As chat templates take it."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            turn["tool_calls"] = [call.described() for call in self.calls]
        if self.answers:
            turn["tool_call_id"] = self.answers
        if self.reasoning:
            turn["reasoning_content"] = self.reasoning
        if self.name:
            turn["name"] = self.name
        return turn


@dataclass(frozen=True)
class Rendering:
    """How a conversation is rendered: with `tools`, and with variables of the template's own.

    `continued`: the last turn is the assistant's, and is gone on with; else the template begins
    the assistant's next turn where `begun`.
    """

    tools: tuple[Tool, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    continued: bool = False
    begun: bool = True


@dataclass(frozen=True)
class Opening:
    """Constant tokens around a document, and those that stand there without one.

    `start` is the text of those without one; `added`: in that is a system message of the
    template's own.
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
    """Renders conversations, and knows what stands around a document in front of them.

    `lead` are tokens before everything, of a model whose template has none.
    """

    def __init__(self, backend: Any, encode: Encode, lead: Sequence[int] = ()) -> None:
        self._backend = backend
        self._encode = encode
        self._lead = tuple(lead)
        self._template: str = backend.chat_template or PLAIN_TEMPLATE
        self._of_day = lru_cache(16)(self._opening)

    @cached_property
    def form(self) -> Form | None:
        """How calls of tools are written; None of a template without, or in an unknown form."""
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
        """Whether the model thinks before it answers, between `<think>` and `</think>`."""
        return _THINK in self._template

    @property
    def variables(self) -> frozenset[str]:
        """Of the variables that switch or measure thinking, those that the template reads."""
        return frozenset(_VARIABLES.findall(self._template))

    def chat(
        self, messages: Sequence[Message], rendering: Rendering | None = None
    ) -> tuple[Begins, list[int]]:
        """What follows a row, and what the row has to end with.

        Raises `InvalidRequestError` when the template refuses the messages or the tools,
        `ConfigurationError` when it has no place for a document.
        """
        rendering = rendering or Rendering()
        text = self._whole(messages, rendering)
        own = messages[0].role == "system"
        begins = _BEGINS[own, bool(rendering.tools)]
        opening = self.opening(begins)
        if not text.startswith(opening.start) or (own and opening.added):
            begins, opening = Begins.ALL, self.opening(Begins.ALL)
        tokens = [*self._lead, *self._encode(text)]
        if tuple(tokens[: len(opening.bare)]) == opening.bare:
            return begins, tokens[len(opening.bare) :]
        # Instructions that begin with a line break share a token with what stands before them.
        return begins, self._encode(text.removeprefix(opening.start))

    def opening(self, begins: Begins) -> Opening:
        """What stands around a document; a template may write the date there."""
        return self._of_day(begins, date.today())

    def render(self, messages: Sequence[Message], rendering: Rendering | None = None) -> str:
        """The text of a conversation; raises `InvalidRequestError` when the template refuses it."""
        rendering = rendering or Rendering()
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
        except Exception as error:  # jinja raises what the template's author chose
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error
        return rendered

    def _whole(self, messages: Sequence[Message], rendering: Rendering) -> str:
        """A conversation; its instructions begin the first question where they may not stand."""
        try:
            return self.render(messages, rendering)
        except InvalidRequestError:
            own = _instructions(messages)
            if not own:
                raise
            refused = self._refuses_instructions
        if len(own) > 1 and not refused:
            return self.render([_joined("system", own), *messages[len(own) :]], rendering)
        rest = messages[len(own) :]
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
        """Taken from what the template renders with a document and without."""
        if begins is Begins.TURNS:
            refusal: Exception = ConfigurationError(_NO_PLACE)
            for place in (_as_system, _in_question):
                try:
                    return self._constant(place, [], ())
                except (InvalidRequestError, ConfigurationError) as error:
                    refusal = error
            raise refusal
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
            # Instructions wander, or are part of the first question.
            return turns if turns.close else self.opening(Begins.ALL)

    def _constant(self, place: Place, own: list[Message], tools: tuple[Tool, ...]) -> Opening:
        """What stands there in any conversation; raises `ConfigurationError` where it varies."""
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
        # What is behind a document is not cut out of what is before it.
        most = len(whole) - (len(before) if tuple(whole[: len(before)]) == before else 0)
        same = 0
        while same < min(most, len(rest)) and whole[-1 - same] == rest[-1 - same]:
            same += 1
        bare = whole[: len(whole) - same]
        text = self._text_of(without, len(bare) - len(self._lead))
        return Opening(
            before,
            tuple(rest[: len(rest) - same]),
            tuple(bare),
            text,
            added=not start.startswith(text),
        )

    def _text_of(self, text: str, tokens: int) -> str:
        """The text of its first tokens."""
        offsets = self._backend.backend_tokenizer.encode(text, add_special_tokens=False).offsets
        return text if tokens >= len(offsets) else text[: offsets[tokens][0]]


_BEGINS = {
    (False, False): Begins.TURNS,
    (True, False): Begins.SYSTEM,
    (False, True): Begins.TOOLS,
    (True, True): Begins.BOTH,
}


def _as_system(messages: Sequence[Message]) -> list[Message]:
    """As a system message, with the conversation's own behind it."""
    own = _instructions(messages)
    return [_joined("system", [_DOCUMENT, *own]), *messages[len(own) :]]


def _in_question(messages: Sequence[Message]) -> list[Message]:
    """At the beginning of the first question."""
    return [_joined("user", [_DOCUMENT, messages[0]]), *messages[1:]]


def _instructions(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role == "system", messages))


def _joined(role: str, messages: Sequence[Message]) -> Message:
    return Message(role, _BETWEEN.join(message.content for message in messages))
