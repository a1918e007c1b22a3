"""Requests of `/v1/responses`, and the chats that ask for the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from app.api.openai.field_types import (
    Limit,
    Str,
    Strict,
    Temperature,
    Top,
    TopP,
    invalid,
    neutral,
)
from app.api.openai.schemas import ChatBody, DragonOptions, StreamOptions

RESULTS, LOGPROBS = "file_search_call.results", "message.output_text.logprobs"
_TEXTS = frozenset({"input_text", "output_text", "text"})
# What a client may send of parts and items that it was sent.
_PART_FIELDS = frozenset({"type", "text", "annotations", "logprobs"})
_SKIPPED = frozenset({"file_search_call"})


class Turn(Strict):
    """A turn of the input, its parts joined."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Str


class FileSearch(Strict):
    """OpenAI's built-in tool, over the device's documents. Its vector stores are collections."""

    type: Literal["file_search"]
    vector_store_ids: Annotated[list[Str], Field(max_length=1000)] = Field(default_factory=list)
    max_num_results: Annotated[int, Field(ge=1, le=32)] | None = None

    filters: Annotated[Any, neutral()] = None
    ranking_options: Annotated[Any, neutral()] = None


def _turns(given: Any) -> Any:
    """A text or a list of items as turns."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise invalid("must be a string or a list of items")
    return [_turn(item) for item in given if _kind(item) not in _SKIPPED]


def _kind(item: Any) -> Any:
    if not isinstance(item, dict):
        raise invalid("an item is an object")
    return item.get("type", "message")


def _turn(item: dict[str, Any]) -> dict[str, Any]:
    if _kind(item) != "message":
        raise invalid("only messages are supported", "unsupported_parameter")
    content = item.get("content")
    if isinstance(content, list):
        content = "".join(map(_text, content))
    return {"role": item.get("role"), "content": content}


def _text(part: Any) -> str:
    if not isinstance(part, dict) or part.get("type") not in _TEXTS or part.keys() - _PART_FIELDS:
        raise invalid("only text parts are supported", "unsupported_parameter")
    if not isinstance(part.get("text"), str):
        raise invalid("a text part has a text")
    return str(part["text"])


class ResponseBody(Strict):
    """`POST /v1/responses`."""

    model: Str
    input: Annotated[
        list[Turn],
        Field(min_length=1, max_length=2048),
        BeforeValidator(_turns, json_schema_input_type=str | list[Turn]),
    ]
    instructions: Str | None = None
    previous_response_id: Str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    max_output_tokens: Limit | None = None
    tools: Annotated[list[FileSearch], Field(max_length=1)] = Field(default_factory=list)
    tool_choice: Annotated[Any, neutral("auto", "required", {"type": "file_search"})] = None
    include: list[Str] | None = None
    top_logprobs: Top | None = None
    dragon: DragonOptions | None = None
    metadata: dict[str, str] | None = None
    # Names of the caller's own, and hints; they change nothing.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    truncation: Annotated[Any, neutral("disabled")] = None

    background: Annotated[Any, neutral(False)] = None
    conversation: Annotated[Any, neutral()] = None
    prompt: Annotated[Any, neutral()] = None
    reasoning: Annotated[Any, neutral({})] = None
    service_tier: Annotated[Any, neutral("auto", "default")] = None
    text: Annotated[Any, neutral({}, {"format": {"type": "text"}})] = None

    @field_validator("top_logprobs")
    @classmethod
    def _only_if_included(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top is not None and LOGPROBS not in (info.data.get("include") or []):
            raise invalid(f"only allowed when include has {LOGPROBS}")
        return top

    @property
    def search(self) -> FileSearch | None:
        """The search of documents, if it is to be shown as a tool's call."""
        return self.tools[0] if self.tools else None

    @property
    def wants_results(self) -> bool:
        """Whether the tool's call shows what it found."""
        return RESULTS in (self.include or [])

    @property
    def wants_logprobs(self) -> bool:
        """Whether the text comes with its tokens' log-probabilities."""
        return LOGPROBS in (self.include or [])

    def as_chat(self, history: Sequence[Turn]) -> ChatBody:
        """The chat that asks for the same, behind the turns of earlier responses."""
        system = [] if not self.instructions else [Turn(role="system", content=self.instructions)]
        turns = [turn.model_dump() for turn in (*system, *history, *self.input)]
        fields = {
            "model": self.model,
            "messages": turns,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_completion_tokens": self.max_output_tokens,
            "logprobs": self.wants_logprobs or None,
            "top_logprobs": self.top_logprobs,
            "dragon": self._options(),
        }
        return ChatBody.model_validate(fields)

    def _options(self) -> DragonOptions | None:
        if (search := self.search) is None:
            return self.dragon
        limits = {"collections": tuple(search.vector_store_ids) or None}
        given = {name: value for name, value in limits.items() if value is not None}
        top = {} if search.max_num_results is None else {"top_k": search.max_num_results}
        return (self.dragon or DragonOptions()).model_copy(update={**given, **top})
