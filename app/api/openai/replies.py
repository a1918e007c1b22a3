"""Replies and stream chunks as OpenAI's clients read them, and the `dragon` object in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.openai.delivery import Choice
from app.api.openai.field_types import IGNORED, UNSENT
from app.api.openai.logprobs import ChatLogprobs, PromptLogprobs, TextLogprobs
from app.api.openai.schemas import DragonOptions
from app.generation.events import (
    Citation,
    Cited,
    Detailed,
    Event,
    PeerChanged,
    Source,
    SourcesFound,
    TokenDetail,
)
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
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None
    token_ids: TokenIds = None


class ReplyMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    reasoning_content: Annotated[str | None, UNSENT] = None
    tool_calls: Annotated[list[CallReply] | None, UNSENT] = None


class ChatChoice(BaseModel):
    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason
    token_ids: TokenIds = None


class TextPiece(BaseModel):
    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None
    token_ids: TokenIds = None
    prompt_token_ids: TokenIds = None


class TextChoice(TextPiece):
    prompt_logprobs: PromptLogprobs | None = None


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
    `aggregators`: which side computed each, `d` or `c`; "" where both do.
    `ledger` is its id under `/api/ledger`. `nothing_relevant`: none of the user's documents
    answers. `closest` are the passages nearest to the question apart from the sources, and
    `unread_documents` were still being read.
    `not_asked`: the cloud was not asked, since the user's own documents answer or none is needed.
    `refused`: why the cloud had no room, and when it will have. `unsearched`: how many parts of
    its corpus were down or late. `citations` are the numbers in the text that cite sources.
    `provenance`: one entry per token, if requested.
    """

    index: int
    ledger: str
    sources: list[Source]
    citations: list[Citation]
    nothing_relevant: bool
    unread_documents: int
    closest: list[Source]
    not_asked: bool
    refused: str | None
    unsearched: int
    participation: list[tuple[int, int]]
    verdicts: str
    aggregators: str
    stats: dict[str, float]
    provenance: Annotated[list[TokenProvenance] | None, UNSENT] = None


class DragonReply(BaseModel):
    """Returned only for a request with a `dragon` object. `ignored`: unknown parameters."""

    aggregation: str
    seed: int
    usage: dict[str, int]
    choices: list[DragonChoice]
    ignored: list[str] = Field(default_factory=list, exclude_if=lambda names: not names)


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


class CitationPiece(BaseModel):
    index: int
    found: list[Citation]


class ProvenancePiece(BaseModel):
    index: int
    tokens: list[TokenProvenance]


class DragonNotice(BaseModel):
    """A report between a stream's pieces, if the request had a `dragon` object.

    Citations and provenance come after the text that they are of.
    """

    peer: Annotated[PeerNotice | None, UNSENT] = None
    citations: Annotated[CitationPiece | None, UNSENT] = None
    provenance: Annotated[ProvenancePiece | None, UNSENT] = None


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
    dragon: Annotated[DragonReply | DragonNotice | None, UNSENT] = None


class ChatCompletion(Reply):
    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    prompt_logprobs: PromptLogprobs | None = None


class ChatCompletionChunk(Reply):
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]


class Completion(Reply):
    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]


class CompletionChunk(Reply):
    object: Literal["text_completion"] = "text_completion"
    choices: list[TextPiece]


def dragon_reply(
    choices: Sequence[Choice], options: DragonOptions | None, *, in_stream: bool = False
) -> DragonReply | None:
    """How finished choices came about, if requested; a stream has sent the provenance before."""
    if options is None:
        return None
    provenance = options.provenance and not in_stream
    request = choices[0].answer.request
    document_tokens = sum(int(c.answer.end.stats.get("document_tokens", 0)) for c in choices)
    return DragonReply(
        aggregation=request.mode.value,
        seed=request.sampling.seed,
        usage={"document_tokens": document_tokens},
        choices=[_choice(choice, provenance=provenance) for choice in choices],
        ignored=list(dict.fromkeys(IGNORED.get() or ())),
    )


def dragon_notice(index: int, event: Event) -> DragonNotice | None:
    """The notice for an event of a choice, if it has one."""
    match event:
        case PeerChanged():
            return DragonNotice(peer=PeerNotice(index=index, **asdict(event)))
        case Cited(citations=citations):
            return DragonNotice(citations=CitationPiece(index=index, found=list(citations)))
        case Detailed(details=details):
            return DragonNotice(provenance=ProvenancePiece(index=index, tokens=_origins(details)))
    return None


def _choice(choice: Choice, *, provenance: bool) -> DragonChoice:
    answer, end = choice.answer, choice.answer.end
    found = answer.found or SourcesFound(())
    return DragonChoice(
        index=choice.index,
        ledger=answer.request.id,
        sources=list(found.sources),
        citations=list(answer.citations),
        nothing_relevant=found.nothing_relevant,
        unread_documents=found.unread_documents,
        closest=list(found.closest),
        not_asked=answer.not_asked,
        refused=answer.refused,
        unsearched=answer.unsearched,
        participation=list(end.participation),
        verdicts=end.verdicts,
        aggregators=end.aggregators,
        stats=dict(end.stats),
        provenance=_origins(answer.details, len(found.sources)) if provenance else None,
    )


def _origins(details: Sequence[TokenDetail], sources: int = 0) -> list[TokenProvenance]:
    """The provenance of tokens; sources found after a token was written have no share in it."""
    found = [TokenProvenance.model_validate(detail.provenance()) for detail in details]
    for token in found:
        token.documents += [0.0] * (sources - len(token.documents))
    return found
