"""A model's chat template, taken apart around a document that stands before the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

from dragon.errors import ConfigurationError, InvalidRequestError
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


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is system, user, assistant or tool.

    An assistant's turn may have `calls` of tools; a tool's answers the one of the id `answers`.
    """

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""

    def described(self) -> dict[str, Any]:
        """As chat templates take it."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            turn["tool_calls"] = [call.described() for call in self.calls]
        if self.answers:
            turn["tool_call_id"] = self.answers
        return turn


Placement = Callable[[Sequence[Message]], Iterator[list[Message]]]
_QUESTION = [Message("user", "x")]
_NEAR = 40  # characters around a call's name
_CALLING = [Tool(_SENTINEL)]
_CALLED = [*_QUESTION, Message("assistant", "", (ToolCall(_SENTINEL, "{}"),)), *_QUESTION]
_TALK = [*_QUESTION, Message("assistant", "y"), Message("user", "z")]


class ChatTemplate:
    """Where a template puts a document: behind the same text, whatever the conversation."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._template: str = backend.chat_template or PLAIN_TEMPLATE

    @cached_property
    def before(self) -> str:
        """What stands before a document."""
        return self._split(self._placement, _QUESTION)[0]

    @cached_property
    def bare(self) -> str:
        """What stands there without one: with the system message that some templates add."""
        without, after = self._render(_QUESTION), self.after(_QUESTION)
        return without.removesuffix(after) if without.endswith(after) else self.before

    @cached_property
    def form(self) -> Form | None:
        """How calls of tools are written; None of a template without, or in an unknown form."""
        try:
            offered = self._render(_QUESTION, _CALLING)
            called = self._render(_CALLED, _CALLING)
        except InvalidRequestError:
            return None
        if _SENTINEL not in offered or called.count(_SENTINEL) <= offered.count(_SENTINEL):
            return None
        at = called.rindex(_SENTINEL)
        return form_of(called[max(0, at - _NEAR) : at + len(_SENTINEL) + _NEAR])

    def after(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """What follows a document: the conversation, up to where the assistant's turn begins.

        Raises `InvalidRequestError` when the template refuses the messages or the tools,
        `ConfigurationError` when it has no place for a document.
        """
        before, after = self._split(self._placement, messages, tools)
        if tools and before != self.before:
            raise InvalidRequestError(
                "tools: the model's chat template has them where passages of documents stand",
                param="tools",
            )
        return after

    def asked_again(self, question: str) -> str:
        """What follows an assistant's text before its next turn, with a question in between.

        Raises `InvalidRequestError` when the template refuses a second turn.
        """
        turns = [*_QUESTION, Message("assistant", _SENTINEL), Message("user", question)]
        return self._render(turns).partition(_SENTINEL)[2]

    @cached_property
    def _placement(self) -> Placement:
        """How documents are placed; some templates have no system message, or let it wander."""
        refusal: Exception = ConfigurationError(
            "the model's chat template has no place for a system message or a document"
        )
        for placement in (_as_system, _in_question):
            try:
                places = [self._split(placement, talk)[0] for talk in (_QUESTION, _TALK)]
            except (InvalidRequestError, ConfigurationError) as error:
                refusal = error
            else:
                if places[0] == places[1]:
                    return placement
        raise refusal

    def _split(
        self, placement: Placement, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> tuple[str, str]:
        refusal: InvalidRequestError | None = None
        for placed in placement(messages):
            try:
                before, found, after = self._render(placed, tools).partition(_SENTINEL)
            except InvalidRequestError as error:
                refusal = refusal or error
                continue
            if not found:
                raise ConfigurationError(
                    "the model's chat template has no place for a system message or a document"
                )
            return before, after
        raise refusal or InvalidRequestError(
            "messages: a conversation with this model begins with a user message", param="messages"
        )

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        try:
            rendered: str = self._backend.apply_chat_template(
                [message.described() for message in messages],
                tools=[tool.described() for tool in tools] or None,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
            )
        except Exception as error:  # jinja raises what the template's author chose
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error
        return rendered


def _as_system(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """As a system message before the conversation's own, or else as one with them."""
    yield [Message("system", _SENTINEL), *messages]
    own = _instructions(messages)
    if own:
        yield [_joined("system", own), *messages[len(own) :]]


def _in_question(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """At the beginning of the first question, with the conversation's system messages."""
    own = _instructions(messages)
    rest = messages[len(own) :]
    if rest and rest[0].role == "user":
        yield [_joined("user", [*own, rest[0]]), *rest[1:]]


def _instructions(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role == "system", messages))


def _joined(role: str, messages: Sequence[Message]) -> Message:
    return Message(role, "\n\n".join([_SENTINEL, *(message.content for message in messages)]))
