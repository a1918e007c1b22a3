"""Requests in the shape of Anthropic's Messages API, and their equivalent chats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from app.api.openai.field_types import (
    NOTHING,
    JsonObject,
    Lenient,
    Limit,
    Neutral,
    Stop,
    Str,
    Temperature,
    TopK,
    TopP,
    invalid,
    text_of_parts,
    wrong,
)
from app.api.openai.schemas import ChatBody, DragonOptions
from app.api.openai.turns import (
    MAX_TOOLS,
    MAX_TURNS,
    CallBody,
    CalledFunction,
    ChatMessage,
    FunctionBody,
    Name,
    NamedFunction,
    NamedTool,
    ToolBody,
    ToolChoice,
)


class _Block(Lenient):
    AT: ClassVar = "messages[].content[]."
    NOTHING: ClassVar = frozenset(
        {"cache_control", "caller", "citations", "data", "is_error", "signature"}
    )


class TextBlock(_Block):
    type: Literal["text"]
    text: Str


Text = Annotated[Str, BeforeValidator(text_of_parts, json_schema_input_type=str | list[TextBlock])]


class ThinkingBlock(_Block):
    """The assistant's reasoning before it answered."""

    type: Literal["thinking"]
    thinking: Str


class RedactedBlock(_Block):
    """Encrypted reasoning, which cannot be read here."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(_Block):
    type: Literal["tool_use"]
    id: Str
    name: Name
    input: JsonObject


class ToolResultBlock(_Block):
    """A tool's result; its text says if it failed."""

    type: Literal["tool_result"]
    tool_use_id: Str
    content: Text = ""


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]
# The types of blocks that are not for a role.
_NOT_OF = {
    "user": {"thinking", "redacted_thinking", "tool_use"},
    "assistant": {"tool_result"},
}


def _blocks(content: Any) -> Any:
    """A text as a single block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content


class MessageBody(Lenient):
    """A turn: a text, or blocks."""

    AT: ClassVar = "messages[]."

    role: Literal["user", "assistant"]
    content: Annotated[
        list[Block], BeforeValidator(_blocks, json_schema_input_type=str | list[Block])
    ]

    @field_validator("content")
    @classmethod
    def _of_its_speaker(cls, content: list[Block], info: ValidationInfo) -> list[Block]:
        role = info.data.get("role", "")
        for block in content:
            if block.type in _NOT_OF.get(role, ()):
                raise invalid(f"a {block.type} is not the {role}'s")
        return content

    def turns(self) -> Iterator[ChatMessage]:
        """The turn in OpenAI's shape, where each tool result is a turn of its own."""
        texts, thoughts, calls = [], [], []
        for block in self.content:
            match block:
                case ToolResultBlock():
                    yield ChatMessage(
                        role="tool", content=block.content, tool_call_id=block.tool_use_id
                    )
                case ToolUseBlock():
                    called = CalledFunction(name=block.name, arguments=json.dumps(block.input))
                    calls.append(CallBody(id=block.id, function=called))
                case ThinkingBlock():
                    thoughts.append(block.thinking)
                case TextBlock():
                    texts.append(block.text)
        if texts or self.role == "assistant":
            yield ChatMessage(
                role=self.role,
                content="\n".join(texts),
                reasoning_content="\n".join(thoughts) or None,
                tool_calls=calls or None,
            )


class MessageTool(Lenient):
    """A tool of the client's own. Anthropic's own tools have other types."""

    AT: ClassVar = "tools[]."
    NOTHING: ClassVar = frozenset({"cache_control", "eager_input_streaming"})

    type: Annotated[Any, Neutral("custom")] = None
    name: Name
    description: Str | None = None
    input_schema: JsonObject
    strict: bool | None = None


class MessageToolChoice(Lenient):
    """Which tool to call, if any."""

    AT: ClassVar = "tool_choice."

    type: Literal["auto", "any", "tool", "none"]
    name: Annotated[Name | None, Field(validate_default=True)] = None
    disable_parallel_tool_use: bool | None = None

    @field_validator("name")
    @classmethod
    def _of_a_tool(cls, name: str | None, info: ValidationInfo) -> str | None:
        if (name is not None) != (info.data.get("type") == "tool"):
            raise invalid("is required with the type tool, and only allowed with it")
        return name

    def as_openai(self) -> ToolChoice:
        """The equivalent in OpenAI's shape."""
        if self.name is not None:
            return NamedTool(type="function", function=NamedFunction(name=self.name))
        return "none" if self.type == "none" else "required" if self.type == "any" else "auto"


class Thinking(Lenient):
    """Whether the model should reason first, if it can."""

    AT: ClassVar = "thinking."
    NOTHING: ClassVar = frozenset({"budget_tokens", "display"})

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]


class MessageFormat(Lenient):
    """A schema that the text must satisfy."""

    AT: ClassVar = "output_config.format."

    type: Literal["json_schema"]
    schema_: Annotated[JsonObject, Field(alias="schema")]


class OutputConfig(Lenient):
    """How hard the model should think, and the format of its text."""

    AT: ClassVar = "output_config."

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: MessageFormat | None = None


class MessageMetadata(Lenient):
    """The user in whose share of the device the answer is written."""

    AT: ClassVar = "metadata."

    user_id: Str | None = None


class MessagesBody(Lenient):
    """`POST /v1/messages`. `count_tokens` takes the same body, or a part of it."""

    NOTHING: ClassVar = (NOTHING | {"cache_control", "inference_geo", "speed"}) - {"metadata"}

    model: Str | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MAX_TURNS)]
    system: Text | None = None
    max_tokens: Limit | None = None
    stop_sequences: Stop = Field(default_factory=list)
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    tools: Annotated[list[MessageTool], Field(max_length=MAX_TOOLS)] = Field(default_factory=list)
    tool_choice: MessageToolChoice = MessageToolChoice(type="auto")
    # By default Anthropic's models do not think.
    thinking: Thinking = Thinking(type="disabled")
    output_config: OutputConfig = OutputConfig()
    metadata: MessageMetadata = MessageMetadata()
    dragon: DragonOptions | None = None

    container: Annotated[Any, Neutral()] = None
    mcp_servers: Annotated[Any, Neutral([])] = None

    def as_openai(self) -> ChatBody:
        """The equivalent chat.

        Raises `InvalidRequestError` for too many turns, including tool results.
        """
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        told = (turn for message in self.messages for turn in message.turns())
        turns = [*system, *islice(told, MAX_TURNS + 1)]
        if not 0 < len(turns) <= MAX_TURNS:
            raise wrong("messages", f"1 to {MAX_TURNS} turns, including tool results")
        functions = [
            FunctionBody(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in self.tools
        ]
        effort, form = self.output_config.effort, self.output_config.format
        asked = {
            "model": self.model,
            "messages": turns,
            "max_tokens": self.max_tokens,
            "stop": self.stop_sequences,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "tools": [ToolBody(type="function", function=function) for function in functions],
            "tool_choice": self.tool_choice.as_openai(),
            "parallel_tool_calls": not self.tool_choice.disable_parallel_tool_use,
            # For the other types the model decides.
            "enable_thinking": {"enabled": True, "disabled": False}.get(self.thinking.type),
            "reasoning_effort": "xhigh" if effort == "max" else effort,
            "response_format": form and {"type": "json_schema", "schema": form.schema_},
            "dragon": self.dragon,
        }
        return ChatBody.model_validate(asked)
