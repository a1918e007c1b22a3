"""Responses and stream chunks as OpenAI's clients read them, and their `dragon` fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.openai.field_types import UNSENT
from app.api.openai.logprobs import ChatLogprobs, TextLogprobs
from app.generation.events import Source
from dragon.inference.tools import ToolCall

FinishReason = Literal["stop", "length", "tool_calls"]


def _is_empty(value: list[str]) -> bool:
    return not value


TokenIds = Annotated[list[int] | None, UNSENT]
"""As in vLLM, on request."""


class PromptTokensDetails(BaseModel):
    """None of the prompt's tokens count as cached: only passages' tokens are."""

    cached_tokens: int = 0


class CompletionUsage(BaseModel):
    """Tokens of the client's own prompt and of the answers; retrieved documents do not count."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails = PromptTokensDetails()

    @classmethod
    def of(cls, prompt: int, completion: int) -> CompletionUsage:
        """The usage of so many tokens read and written."""
        return cls(
            prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
        )


class SourceReply(BaseModel):
    """A document that an answer was conditioned on; see `app.generation.events.Source`."""

    side: Literal["private", "public"]
    id: str
    title: str
    text: str
    score: float
    weight: float
    page: int | None
    start: int | None
    end: int | None
    query: str | None
    citation: int | None
    confidence: int | None
    around: str

    @classmethod
    def of(cls, source: Source) -> SourceReply:
        """The reply's form of a source."""
        return cls.model_validate(source, from_attributes=True)


class CitationReply(BaseModel):
    """A number in the text, by character offsets, that cites the source with this index."""

    start: int
    end: int
    source: int


class TokenProvenance(BaseModel):
    """Where a token comes from (`events.TokenDetail`); `documents` are the shares of `sources`."""

    position: int
    text: str
    start: int
    end: int
    cloud: float
    documents: list[float]
    tv: float | None


class DragonChoice(BaseModel):
    """How one choice came about. `participation`: half-open token ranges written jointly.

    `verdicts`: whose draft each of those tokens is (`=` both, `d` device, `c` cloud, `.` neither).
    `ledger` is its id under `/api/ledger`. `nothing_relevant`: none of the user's documents
    answers, and these passages are `closest`; `unread_documents` were still being read.
    `not_asked`: the cloud was not asked, since the user's own documents answer or none is needed.
    `refused`: why the cloud had no room, and when it will have. `unsearched`: how many parts of
    its corpus were down or late. `citations` are the numbers in the text that cite sources.
    `provenance`: one entry per token, if requested.
    """

    index: int
    ledger: str
    sources: list[SourceReply]
    citations: list[CitationReply]
    nothing_relevant: bool
    unread_documents: int
    closest: list[SourceReply]
    not_asked: bool
    refused: str | None
    unsearched: int
    participation: list[tuple[int, int]]
    verdicts: str
    stats: dict[str, float]
    provenance: Annotated[list[TokenProvenance] | None, UNSENT] = None


class DragonReply(BaseModel):
    """Returned only for a request with a `dragon` object. `ignored`: unknown parameters."""

    aggregation: str
    seed: int
    usage: dict[str, int]
    choices: list[DragonChoice]
    ignored: list[str] = Field(default_factory=list, exclude_if=_is_empty)


class PeerNotice(BaseModel):
    """From token `position` of a choice on the cloud takes part, or no longer does.

    `refused`: it has no room now; the reason says when it will. `unsearched`: how many parts of its
    corpus were down or late.
    """

    index: int
    joint: bool
    position: int
    reason: str
    refused: bool
    unsearched: int


class DragonNotice(BaseModel):
    """What a stream reports between its pieces if the request had a `dragon` object."""

    peer: PeerNotice


class CitationPiece(BaseModel):
    """More citations of a choice."""

    index: int
    found: list[CitationReply]


class CitationNotice(BaseModel):
    """Citations in a stream, after the text that contains them."""

    citations: CitationPiece


class ProvenancePiece(BaseModel):
    """More tokens of a choice."""

    index: int
    tokens: list[TokenProvenance]


class ProvenanceNotice(BaseModel):
    """Where tokens of a stream come from, after their text."""

    provenance: ProvenancePiece


Dragon = DragonReply | DragonNotice | CitationNotice | ProvenanceNotice


class FunctionReply(BaseModel):
    """A function that the model calls; `arguments` is the text of a JSON object."""

    name: str
    arguments: str


class CallReply(BaseModel):
    """A call; in a stream, with its `index` among the message's calls."""

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
    """What a chunk adds to a chat message; empty in the last one."""

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


class TextChoice(BaseModel):
    """One choice of a completion, whole or a part of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None
    token_ids: TokenIds = None
    prompt_token_ids: TokenIds = None


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


class ChatCompletionChunk(Reply):
    """A piece of an answer to a chat."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]


class Completion(Reply):
    """A whole completion of prompts, or a piece of one."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]
