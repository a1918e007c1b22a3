"""Responses as OpenAI's clients read them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.openai.field_types import UNSENT
from app.api.openai.logprobs import TokenLogprob
from app.api.openai.paging import Page
from app.api.openai.replies import DragonReply

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


class FileCitation(BaseModel):
    """One of the user's documents that the text is based on; `index` is an offset in the text."""

    type: Literal["file_citation"] = "file_citation"
    index: int
    file_id: str
    filename: str


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[FileCitation]
    logprobs: list[TokenLogprob] = Field(default_factory=list)


class OutputMessage(BaseModel):
    id: str
    type: Literal["message"] = "message"
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]


class FunctionCall(BaseModel):
    """A function that the model calls; `arguments` is the text of a JSON object."""

    id: str
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    call_id: str
    name: str
    arguments: str


class FoundFile(BaseModel):
    """A passage that was found, made from the fields of a `Source`."""

    file_id: Annotated[str, Field(validation_alias="id")]
    filename: Annotated[str, Field(validation_alias="title")]
    score: float
    text: str
    attributes: dict[str, str] = Field(default_factory=dict)


class FileSearchCall(BaseModel):
    """A search of the user's documents, with `results` if requested."""

    id: str
    type: Literal["file_search_call"] = "file_search_call"
    status: Literal["in_progress", "searching", "completed"]
    queries: list[str]
    results: list[FoundFile] | None = None


class ReasoningText(BaseModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class Reasoning(BaseModel):
    """The model's reasoning before it answered."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    status: Literal["in_progress", "completed"]
    summary: list[dict[str, str]] = Field(default_factory=list)
    content: list[ReasoningText]


Output = FileSearchCall | Reasoning | OutputMessage | FunctionCall


class ResponseUsage(BaseModel):
    """Tokens of the conversation and of the answer; retrieved documents do not count."""

    input_tokens: int
    input_tokens_details: dict[str, int] = {"cached_tokens": 0, "cache_write_tokens": 0}
    output_tokens: int
    output_tokens_details: dict[str, int] = {"reasoning_tokens": 0}
    total_tokens: int


class ResponseError(BaseModel):
    code: Literal["server_error"] = "server_error"
    message: str


class Incomplete(BaseModel):
    """Why it ended early."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseObject(BaseModel):
    """OpenAI's `response` object; unset fields have their defaults."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None
    max_output_tokens: int | None
    model: str
    output: list[Output]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    store: bool
    temperature: float
    text: dict[str, Any] = {"format": {"type": "text"}}
    tool_choice: Any = "auto"
    tools: list[dict[str, Any]]
    top_p: float
    truncation: Literal["auto", "disabled"] = "disabled"
    usage: ResponseUsage | None = None
    metadata: dict[str, str]
    dragon: Annotated[DragonReply | None, UNSENT] = None


class InputItem(BaseModel):
    """An item of the input: a message, a call or a function's result."""

    id: str
    type: Literal["message", "function_call", "function_call_output"]
    status: Literal["completed"] = "completed"
    role: Annotated[str | None, UNSENT] = None
    content: Annotated[list[dict[str, Any]] | None, UNSENT] = None
    call_id: Annotated[str | None, UNSENT] = None
    name: Annotated[str | None, UNSENT] = None
    arguments: Annotated[str | None, UNSENT] = None
    output: Annotated[str | None, UNSENT] = None


InputItems = Page[InputItem]
