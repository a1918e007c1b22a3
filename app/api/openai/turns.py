"""The turns of a chat, with tool calls and their results, and the tools themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from app.api.openai.field_types import (
    JsonObject,
    Lenient,
    Neutral,
    Str,
    invalid,
    text_of_parts,
    unicode_within,
)
from dragon.inference.tokenizer import Message
from dragon.inference.tools import Tool, ToolCall

T = TypeVar("T")
MAX_TURNS = 2048
MAX_TOOLS = 128

Name = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class FunctionBody(Lenient):
    """A function that may be called, with a JSON schema of its arguments."""

    AT: ClassVar = "tools[]."

    name: Name
    description: Str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class ToolBody(Lenient):
    AT: ClassVar = "tools[]."

    type: Literal["function"]
    function: FunctionBody

    def tool(self) -> Tool:
        """The equivalent in the engine's form."""
        function = self.function
        parameters = {} if function.parameters is None else {"parameters": function.parameters}
        return Tool(function.name, function.description or "", **parameters)


class NamedFunction(Lenient):
    name: Name


class NamedTool(Lenient):
    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[ToolBody], Field(max_length=MAX_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


class CalledFunction(Lenient):
    """A function that was called; `arguments` is the text of a JSON object."""

    AT: ClassVar = "messages[].tool_calls[]."

    name: Name
    arguments: Str

    @field_validator("arguments")
    @classmethod
    def _an_object(cls, arguments: str) -> str:
        try:
            whole = json.loads(arguments)
        except (ValueError, RecursionError):
            whole = None
        if not isinstance(whole, dict):
            raise invalid("the text of a JSON object")
        unicode_within(whole)
        return arguments


class CallBody(Lenient):
    AT: ClassVar = "messages[].tool_calls[]."
    NOTHING: ClassVar = frozenset({"index"})

    id: Str
    type: Literal["function"] = "function"
    function: CalledFunction


def _of_an_assistant(calls: T, info: ValidationInfo) -> T:
    if calls and info.data.get("role") != "assistant":
        raise invalid("only an assistant calls")
    return calls


OfAnAssistant = AfterValidator(_of_an_assistant)
"""Validates a turn's calls, in a field after its role."""


class TextPart(Lenient):
    type: Literal["text", "input_text", "output_text"]
    text: str


Text = Annotated[Str, BeforeValidator(text_of_parts, json_schema_input_type=str | list[TextPart])]
"""A text, or a list of text parts."""


class ChatMessage(Lenient):
    """One turn. `developer` is the newer name of `system`."""

    AT: ClassVar = "messages[]."
    SPELLINGS: ClassVar = {"reasoning": "reasoning_content", "thinking": "reasoning_content"}
    NOTHING: ClassVar = frozenset({"id", "cache_control", "status", "phase"})

    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: Annotated[list[CallBody] | None, Field(max_length=MAX_TOOLS), OfAnAssistant] = None
    tool_call_id: Str | None = None
    content: Annotated[Text | None, Field(validate_default=True)] = None
    name: Str | None = None
    reasoning_content: Str | None = None
    refusal: Annotated[Any, Neutral()] = None
    audio: Annotated[Any, Neutral()] = None
    annotations: Annotated[Any, Neutral([])] = None
    function_call: Annotated[Any, Neutral()] = None

    @field_validator("tool_call_id")
    @classmethod
    def _of_a_tool(cls, call: str | None, info: ValidationInfo) -> str | None:
        if call is not None and info.data.get("role") != "tool":
            raise invalid("only a tool answers a call")
        return call

    @field_validator("content")
    @classmethod
    def _said(cls, content: str | None, info: ValidationInfo) -> str | None:
        if content is None and not info.data.get("tool_calls"):
            raise invalid("Input should be a valid string")
        return content


def as_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """The turns in the tokenizer's form."""
    return [
        Message(
            "system" if each.role == "developer" else each.role,
            each.content or "",
            tuple(
                ToolCall(call.function.name, call.function.arguments, call.id)
                for call in each.tool_calls or ()
            ),
            each.tool_call_id or "",
            each.reasoning_content or "",
            each.name or "",
        )
        for each in messages
    ]
