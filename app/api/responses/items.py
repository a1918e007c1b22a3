"""The items of a response's input, and the turns of a chat that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from app.api.openai.field_types import TEXTS, Str, Strict, invalid
from app.api.openai.schemas import ChatMessage
from app.api.openai.tools import CallBody, CalledFunction

# Items that a client sends back have ids and states.
_SENT_BACK = ConfigDict(extra="ignore")


def _text_of(content: Any) -> Any:
    """The parts of a text, joined."""
    return "\n".join(map(_text, content)) if isinstance(content, list) else content


def _text(part: Any) -> str:
    if not isinstance(part, dict) or part.get("type") not in TEXTS:
        raise invalid("only text parts are supported", "unsupported_parameter")
    if not isinstance(part.get("text"), str):
        raise invalid("a text part has a text")
    return str(part["text"])


class TextPart(Strict):
    """A part of a text."""

    type: Literal["input_text", "output_text", "text"]
    text: str


Text = Annotated[Str, BeforeValidator(_text_of, json_schema_input_type=str | list[TextPart])]


class MessageItem(Strict):
    """What was said."""

    model_config = _SENT_BACK

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text

    def turn(self) -> ChatMessage:
        """The turn of a chat."""
        return ChatMessage(role=self.role, content=self.content)


class FunctionCallItem(CalledFunction):
    """A call that the model made."""

    model_config = _SENT_BACK

    type: Literal["function_call"]
    call_id: Str

    def turn(self) -> ChatMessage:
        """The turn of a chat."""
        function = CalledFunction(name=self.name, arguments=self.arguments)
        return ChatMessage(
            role="assistant", tool_calls=[CallBody(id=self.call_id, function=function)]
        )


class FunctionOutputItem(Strict):
    """What a function returned."""

    model_config = _SENT_BACK

    type: Literal["function_call_output"]
    call_id: Str
    output: Text

    def turn(self) -> ChatMessage:
        """The turn of a chat."""
        return ChatMessage(role="tool", tool_call_id=self.call_id, content=self.output)


class ReasoningItem(Strict):
    """What a model thought before an answer."""

    model_config = _SENT_BACK

    type: Literal["reasoning"]

    def turn(self) -> None:
        """None: it is no turn."""


class SearchItem(Strict):
    """A search of documents, which is repeated for every response."""

    model_config = _SENT_BACK

    type: Literal["file_search_call"]

    def turn(self) -> None:
        """None: it is no turn."""


Item = Annotated[
    MessageItem | FunctionCallItem | FunctionOutputItem | SearchItem | ReasoningItem,
    Field(discriminator="type"),
]


def listed(given: Any) -> Any:
    """A text as one message, and items without a type as messages."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise invalid("must be a string or a list of items")
    return [{"type": "message", **item} if isinstance(item, dict) else item for item in given]


def turns_of(items: Sequence[Item]) -> list[ChatMessage]:
    """The turns of items: calls belong to the assistant's turn before them."""
    turns: list[ChatMessage] = []
    for item in items:
        if (turn := item.turn()) is None:
            continue
        if turn.tool_calls and turns and turns[-1].role == "assistant":
            calls = [*(turns[-1].tool_calls or ()), *turn.tool_calls]
            turns[-1] = turns[-1].model_copy(update={"tool_calls": calls})
        else:
            turns.append(turn)
    return turns
