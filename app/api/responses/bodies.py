"""Requests of `/v1/responses`, and their equivalent chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from app.api.openai.field_types import (
    NOTHING,
    Lenient,
    Limit,
    Neutral,
    Str,
    Strict,
    Temperature,
    Top,
    TopP,
    conflict,
    invalid,
    wrong,
)
from app.api.openai.schemas import ChatBody, DragonOptions, Effort, StreamOptions
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
    model_config = _SENT_BACK

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text


class FunctionCallItem(CalledFunction):
    model_config = _SENT_BACK

    type: Literal["function_call"]
    call_id: Str


class FunctionOutputItem(Strict):
    model_config = _SENT_BACK

    type: Literal["function_call_output"]
    call_id: Str
    output: Text


class SkippedItem(Strict):
    """An item that is no turn: earlier reasoning, or a search, which every response repeats."""

    model_config = _SENT_BACK

    type: Literal["reasoning", "file_search_call"]


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
    type: Literal["function"]


class ChosenFunction(NamedFunction):
    type: Literal["function"]


class ChosenSearch(Lenient):
    """The search, which always happens."""

    type: Literal["file_search"]


class TextFormat(JsonSchema):
    """Text, any JSON object, or JSON described by a schema."""

    type: Literal["text", "json_object", "json_schema"]


class TextOptions(Lenient):
    format: TextFormat | None = None


class ReasoningOptions(Lenient):
    """How hard the model should think, if it can."""

    AT: ClassVar = "reasoning."
    NOTHING: ClassVar = frozenset({"summary", "generate_summary", "encrypted_content"})

    effort: Effort | None = None


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
    text: TextOptions = TextOptions()
    include: list[Str] = Field(default_factory=list)
    top_logprobs: Top | None = None
    reasoning: ReasoningOptions = ReasoningOptions()
    dragon: DragonOptions | None = None
    metadata: dict[str, str] | None = None
    # The caller's own names, and hints; they change nothing.
    user: str | None = None
    max_tool_calls: int | None = None
    truncation: Literal["auto", "disabled"] | None = None

    background: Annotated[Any, Neutral(False)] = None
    conversation: Annotated[Any, Neutral()] = None
    prompt: Annotated[Any, Neutral()] = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if sum(isinstance(tool, FileSearch) for tool in self.tools) > 1:
            message = "file_search may be given only once, with all its vector stores"
            raise conflict("tools", message)
        if self.top_logprobs is not None and LOGPROBS not in self.include:
            raise conflict("top_logprobs", f"only allowed when include has {LOGPROBS}")
        return self

    @property
    def search(self) -> FileSearch | None:
        """The search of documents, if it is to be shown as a tool call."""
        if self.tool_choice == "none":
            return None
        return next((tool for tool in self.tools if isinstance(tool, FileSearch)), None)

    @property
    def turns(self) -> list[ChatMessage]:
        """The input as the turns of a chat: calls belong to the assistant's turn before them."""
        turns: list[ChatMessage] = []
        for item in self.input:
            match item:
                case MessageItem():
                    turns.append(ChatMessage(role=item.role, content=item.content))
                case FunctionOutputItem():
                    turns.append(
                        ChatMessage(role="tool", tool_call_id=item.call_id, content=item.output)
                    )
                case FunctionCallItem():
                    function = CalledFunction(name=item.name, arguments=item.arguments)
                    calls = [CallBody(id=item.call_id, function=function)]
                    if turns and turns[-1].role == "assistant":
                        calls = [*(turns[-1].tool_calls or ()), *calls]
                        turns[-1] = turns[-1].model_copy(update={"tool_calls": calls})
                    else:
                        turns.append(ChatMessage(role="assistant", tool_calls=calls))
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
        functions = [tool for tool in self.tools if isinstance(tool, FunctionTool)]
        fields = {
            "model": self.model,
            "messages": turns,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_completion_tokens": self.max_output_tokens,
            "logprobs": LOGPROBS in self.include,
            "top_logprobs": self.top_logprobs,
            "response_format": self._format(),
            "tools": [ToolBody(type="function", function=function) for function in functions],
            "tool_choice": self._choice(),
            "parallel_tool_calls": self.parallel_tool_calls,
            "reasoning_effort": self.reasoning.effort,
            "truncation": self.truncation,
            "dragon": self._options(limits),
        }
        return ChatBody.model_validate(fields)

    def _format(self) -> ResponseFormat | None:
        if (given := self.text.format) is None:
            return None
        schema = given if given.type == "json_schema" else None
        asked = {"type": given.type, "json_schema": schema, "schema": given.schema_}
        return ResponseFormat.model_validate(asked)

    def _choice(self) -> ToolChoice | None:
        """Which function to call; a search is no function, and happens in any case."""
        choice = self.tool_choice
        if isinstance(choice, ChosenFunction):
            return NamedTool(type="function", function=NamedFunction(name=choice.name))
        only_search = self.tools and all(isinstance(tool, FileSearch) for tool in self.tools)
        if isinstance(choice, ChosenSearch) or (choice == "required" and only_search):
            return None
        return choice

    def _options(self, limits: Mapping[str, tuple[str, ...]]) -> DragonOptions | None:
        if (search := self.search) is None:
            return self.dragon
        top = {} if search.max_num_results is None else {"top_k": search.max_num_results}
        return (self.dragon or DragonOptions()).model_copy(update={**limits, **top})
