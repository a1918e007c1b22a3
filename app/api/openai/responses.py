"""Responses and stream chunks as OpenAI's clients read them, and their `dragon` fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel

from app.api.openai.dragon_fields import Dragon
from app.api.openai.field_types import UNSENT
from app.api.openai.logprobs import ChatLogprobs, PromptLogprobs, TextLogprobs
from dragon.inference.tools import ToolCall

FinishReason = Literal["stop", "length", "tool_calls"]


TokenIds = Annotated[list[int] | None, UNSENT]
"""As in vLLM, on request."""


class PromptTokensDetails(BaseModel):
    """No token of the prompt counts as cached: only passages' tokens are cached."""

    cached_tokens: int = 0


class CompletionUsage(BaseModel):
    """Tokens of the client's own prompt and of the answers; retrieved documents do not count."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails = PromptTokensDetails()

    @classmethod
    def of(cls, prompt: int, completion: int) -> CompletionUsage:
        """The usage for numbers of tokens read and written."""
        return cls(
            prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
        )


class FunctionReply(BaseModel):
    """A function that the model calls; `arguments` is the text of a JSON object."""

    name: str
    arguments: str


class CallReply(BaseModel):
    """A call of a tool; in a stream, with its `index` among the message's calls."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionReply
    index: Annotated[int | None, UNSENT] = None

    @classmethod
    def of(cls, call: ToolCall, index: int | None = None) -> CallReply:
        """The reply's form of a call."""
        function = FunctionReply(name=call.name, arguments=call.arguments)
        return cls(id=call.id, function=function, index=index)


class Delta(BaseModel):
    """The part that a chunk adds to a chat message; empty in the last chunk."""

    role: Annotated[Literal["assistant"] | None, UNSENT] = None
    content: Annotated[str | None, UNSENT] = None
    reasoning_content: Annotated[str | None, UNSENT] = None
    tool_calls: Annotated[list[CallReply] | None, UNSENT] = None


class ChunkChoice(BaseModel):
    """One choice's part of a chunk of chat."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None
    token_ids: TokenIds = None


class ReplyMessage(BaseModel):
    """The assistant's turn."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    reasoning_content: Annotated[str | None, UNSENT] = None
    tool_calls: Annotated[list[CallReply] | None, UNSENT] = None


class ChatChoice(BaseModel):
    """One choice of a whole chat completion."""

    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason
    token_ids: TokenIds = None


class TextPiece(BaseModel):
    """One choice's part of a chunk of a completion."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None
    token_ids: TokenIds = None
    prompt_token_ids: TokenIds = None


class TextChoice(TextPiece):
    """One choice of a whole completion."""

    prompt_logprobs: PromptLogprobs | None = None


class Reply(BaseModel):
    """The common fields of responses and their chunks."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[Any]
    usage: CompletionUsage | None = None
    prompt_token_ids: TokenIds = None
    dragon: Annotated[Dragon | None, UNSENT] = None


class ChatCompletion(Reply):
    """A whole answer to a chat."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    prompt_logprobs: PromptLogprobs | None = None


class ChatCompletionChunk(Reply):
    """A piece of an answer to a chat."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]


class Completion(Reply):
    """A whole completion of prompts."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]


class CompletionChunk(Reply):
    """A piece of a completion of prompts."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextPiece]
