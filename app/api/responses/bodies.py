"""Requests of `/v1/responses`, and their equivalent chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from app.api.openai.field_types import (
    Limit,
    Neutral,
    Str,
    Strict,
    Temperature,
    Top,
    TopP,
    invalid,
    wrong,
)
from app.api.openai.schemas import ChatBody, DragonOptions, StreamOptions
from app.api.openai.spellings import NOTHING, Lenient
from app.api.openai.structured import JsonSchema, ResponseFormat
from app.api.openai.turns import (
    MAX_TOOLS,
    MAX_TURNS,
    CallBody,
    CalledFunction,
    ChatMessage,
    FunctionBody,
    NamedFunction,
    NamedTool,
    Text,
    ToolBody,
    ToolChoice,
)

# Items that a client sends back have ids and states.
_SENT_BACK = ConfigDict(extra="ignore")
RESULTS, LOGPROBS = "file_search_call.results", "message.output_text.logprobs"


class MessageItem(Strict):
    """A message."""

    model_config = _SENT_BACK

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text

    def turn(self) -> ChatMessage:
        """The item as a turn of a chat."""
        return ChatMessage(role=self.role, content=self.content)


class FunctionCallItem(CalledFunction):
    """A call of a function."""

    model_config = _SENT_BACK

    type: Literal["function_call"]
    call_id: Str

    def turn(self) -> ChatMessage:
        """The item as a turn of a chat."""
        function = CalledFunction(name=self.name, arguments=self.arguments)
        return ChatMessage(
            role="assistant", tool_calls=[CallBody(id=self.call_id, function=function)]
        )


class FunctionOutputItem(Strict):
    """A function's result."""

    model_config = _SENT_BACK

    type: Literal["function_call_output"]
    call_id: Str
    output: Text

    def turn(self) -> ChatMessage:
        """The item as a turn of a chat."""
        return ChatMessage(role="tool", tool_call_id=self.call_id, content=self.output)


class SkippedItem(Strict):
    """An item that is no turn: earlier reasoning, or a search, which every response repeats."""

    model_config = _SENT_BACK

    type: Literal["reasoning", "file_search_call"]

    def turn(self) -> None:
        """None."""


Item = Annotated[
    MessageItem | FunctionCallItem | FunctionOutputItem | SkippedItem, Field(discriminator="type")
]


def _listed(given: Any) -> Any:
    """A text as one message, and items without a type as messages."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise invalid("must be a string or a list of items")
    return [{"type": "message", **item} if isinstance(item, dict) else item for item in given]


class FileSearch(Lenient):
    """OpenAI's built-in tool, over the device's documents. Its vector stores are collections."""

    type: Literal["file_search"]
    vector_store_ids: Annotated[list[Str], Field(max_length=1000)] = Field(default_factory=list)
    max_num_results: Annotated[int, Field(ge=1, le=32)] | None = None

    filters: Annotated[Any, Neutral()] = None
    ranking_options: Annotated[Any, Neutral()] = None


class FunctionTool(FunctionBody):
    """A function of the client's own."""

    type: Literal["function"]

    def body(self) -> ToolBody:
        """The equivalent for a chat."""
        return ToolBody(type="function", function=self)


class ChosenFunction(NamedFunction):
    """The one function to call."""

    type: Literal["function"]


class ChosenSearch(Lenient):
    """The search, which always happens."""

    type: Literal["file_search"]


class TextFormat(JsonSchema):
    """Text, any JSON object, or JSON described by a schema."""

    type: Literal["text", "json_object", "json_schema"]


class TextOptions(Lenient):
    """The format of the text."""

    format: TextFormat | None = None

    def response_format(self) -> ResponseFormat | None:
        """The equivalent for a chat."""
        if (given := self.format) is None:
            return None
        schema = given if given.type == "json_schema" else None
        asked = {"type": given.type, "json_schema": schema, "schema": given.schema_}
        return ResponseFormat.model_validate(asked)


class ReasoningOptions(Lenient):
    """How hard the model should think, if it can."""

    AT: ClassVar = "reasoning."
    NOTHING: ClassVar = frozenset({"summary", "generate_summary", "encrypted_content"})

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ResponseBody(Lenient):
    """`POST /v1/responses`."""

    SPELLINGS: ClassVar = {"max_tokens": "max_output_tokens"}
    NOTHING: ClassVar = NOTHING - {"store", "metadata"}

    model: Str | None = None
    input: Annotated[
        list[Item],
        Field(min_length=1, max_length=MAX_TURNS),
        BeforeValidator(_listed, json_schema_input_type=str | list[Item]),
    ]
    instructions: Str | None = None
    previous_response_id: Str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    max_output_tokens: Limit | None = None
    tools: Annotated[
        list[Annotated[FileSearch | FunctionTool, Field(discriminator="type")]],
        Field(max_length=MAX_TOOLS),
    ] = Field(default_factory=list)
    tool_choice: Literal["none", "auto", "required"] | ChosenFunction | ChosenSearch | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    include: list[Str] | None = None
    top_logprobs: Top | None = None
    dragon: DragonOptions | None = None
    metadata: dict[str, str] | None = None
    # The caller's own names, and hints; they change nothing.
    user: str | None = None
    max_tool_calls: int | None = None
    truncation: Literal["auto", "disabled"] | None = None

    background: Annotated[Any, Neutral(False)] = None
    conversation: Annotated[Any, Neutral()] = None
    prompt: Annotated[Any, Neutral()] = None
    reasoning: ReasoningOptions | None = None

    @field_validator("tools")
    @classmethod
    def _one_search(cls, tools: list[Any]) -> list[Any]:
        if sum(isinstance(tool, FileSearch) for tool in tools) > 1:
            raise invalid("file_search may be given only once, with all its vector stores")
        return tools

    @field_validator("top_logprobs")
    @classmethod
    def _only_if_included(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and LOGPROBS not in (info.data.get("include") or []):
            raise invalid(f"only allowed when include has {LOGPROBS}")
        return top

    @property
    def search(self) -> FileSearch | None:
        """The search of documents, if it is to be shown as a tool call."""
        if self.tool_choice == "none":
            return None
        return next((tool for tool in self.tools if isinstance(tool, FileSearch)), None)

    @property
    def wants_results(self) -> bool:
        """Whether the tool's call shows what it found."""
        return RESULTS in (self.include or [])

    @property
    def wants_logprobs(self) -> bool:
        """Whether the text comes with its tokens' log-probabilities."""
        return LOGPROBS in (self.include or [])

    @property
    def turns(self) -> list[ChatMessage]:
        """The input as the turns of a chat: calls belong to the assistant's turn before them."""
        turns: list[ChatMessage] = []
        for item in self.input:
            if (turn := item.turn()) is None:
                continue
            if turn.tool_calls and turns and turns[-1].role == "assistant":
                calls = [*(turns[-1].tool_calls or ()), *turn.tool_calls]
                turns[-1] = turns[-1].model_copy(update={"tool_calls": calls})
            else:
                turns.append(turn)
        return turns

    def as_chat(
        self, history: Sequence[ChatMessage], limits: Mapping[str, tuple[str, ...]]
    ) -> ChatBody:
        """The equivalent chat, after the turns of earlier responses.

        `limits` are those of its search. Raises `InvalidRequestError` for too many turns, or none.
        """
        system = (
            [ChatMessage(role="system", content=self.instructions)] if self.instructions else []
        )
        turns = [*system, *history, *self.turns]
        if not 0 < len(turns) <= MAX_TURNS:
            raise wrong("input", f"1 to {MAX_TURNS} turns, including those of earlier responses")
        fields = {
            "model": self.model,
            "messages": turns,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_completion_tokens": self.max_output_tokens,
            "logprobs": self.wants_logprobs or None,
            "top_logprobs": self.top_logprobs,
            "response_format": self.text and self.text.response_format(),
            "tools": [tool.body() for tool in self.tools if isinstance(tool, FunctionTool)],
            "tool_choice": self._choice(),
            "parallel_tool_calls": self.parallel_tool_calls,
            "reasoning_effort": self.reasoning and self.reasoning.effort,
            "truncation": self.truncation,
            "dragon": self._options(limits),
        }
        return ChatBody.model_validate(fields)

    def _choice(self) -> ToolChoice | None:
        """Which function to call; a search is no function, and happens in any case."""
        choice = self.tool_choice
        if isinstance(choice, ChosenFunction):
            return NamedTool(type="function", function=NamedFunction(name=choice.name))
        if isinstance(choice, ChosenSearch):
            return None
        only_search = all(isinstance(tool, FileSearch) for tool in self.tools)
        return None if choice == "required" and self.tools and only_search else choice

    def _options(self, limits: Mapping[str, tuple[str, ...]]) -> DragonOptions | None:
        if (search := self.search) is None:
            return self.dragon
        top = {} if search.max_num_results is None else {"top_k": search.max_num_results}
        return (self.dragon or DragonOptions()).model_copy(update={**limits, **top})
