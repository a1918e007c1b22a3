"""Responses and stream chunks in OpenAI's shapes."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.choices import Choice
from app.events import TokenDetail
from app.logprobs import ChatLogprobs, TextLogprobs, chat_logprobs, text_logprobs
from dragon.tokenizer import Tokenizer

FinishReason = Literal["stop", "length"]


def _is_none(value: object) -> bool:
    return value is None


class Usage(BaseModel):
    """Tokens of the client's own prompt and of the answers; retrieved documents do not count."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class SourceReply(BaseModel):
    """A document that an answer was conditioned on; see `app.events.Source`."""

    side: Literal["private", "public"]
    id: str
    title: str
    text: str
    score: float
    weight: float
    page: int | None
    start: int | None
    end: int | None
    hop: int


class TokenProvenance(BaseModel):
    """Where a token comes from, see `app.events.TokenDetail`; `documents` are the `sources`."""

    position: int
    text: str
    start: int
    end: int
    cloud: float
    documents: list[float]
    tv: float | None


class DragonChoice(BaseModel):
    """How one choice came about. `participation`: token ranges, half open, written jointly.

    `verdicts`: whose draft each of those tokens is (`=` both sides', `d` device, `c` cloud, `.`).
    `ledger` is its id under `/api/ledger`. `nothing_relevant`: none of the person's documents is
    about this. `hops` are the tokens from which on the answer was written with what a follow-up
    search had found; a source's `hop` counts them. `stats.passes` is one more than there are.
    `provenance`: a token an entry, where it was asked for.
    """

    index: int
    ledger: str
    sources: list[SourceReply]
    nothing_relevant: bool
    hops: list[int]
    participation: list[tuple[int, int]]
    verdicts: str
    stats: dict[str, float]
    provenance: list[TokenProvenance] | None = Field(default=None, exclude_if=_is_none)


class DragonReply(BaseModel):
    """What only those see who sent a `dragon` object."""

    aggregation: str
    seed: int
    usage: dict[str, int]
    choices: list[DragonChoice]


class PeerNotice(BaseModel):
    """From token `position` of a choice on the cloud takes part, or no longer does."""

    index: int
    joint: bool
    position: int
    reason: str


class DragonNotice(BaseModel):
    """What a stream tells in its midst to those who sent a `dragon` object."""

    peer: PeerNotice


class ProvenancePiece(BaseModel):
    """More tokens of a choice."""

    index: int
    tokens: list[TokenProvenance]


class ProvenanceNotice(BaseModel):
    """Where tokens of a stream come from, after their text."""

    provenance: ProvenancePiece


Dragon = DragonReply | DragonNotice | ProvenanceNotice


class Delta(BaseModel):
    """What a chunk adds to a chat message; empty in the last one."""

    role: Literal["assistant"] | None = Field(default=None, exclude_if=_is_none)
    content: str | None = Field(default=None, exclude_if=_is_none)


class ChunkChoice(BaseModel):
    """One choice's part of a chunk of chat."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None


class ReplyMessage(BaseModel):
    """The assistant's turn."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """One choice of a whole chat completion."""

    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason


class TextChoice(BaseModel):
    """One choice of a completion, whole or a part of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None


class _Reply(BaseModel):
    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None = None
    choices: list[Any]
    usage: Usage | None = None
    dragon: Dragon | None = Field(default=None, exclude_if=_is_none)


class ChatCompletion(_Reply):
    """A whole answer to a chat."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]


class ChatCompletionChunk(_Reply):
    """A piece of an answer to a chat."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]


class Completion(_Reply):
    """A whole completion of prompts, or a piece of one."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]


class Shape(ABC):
    """One response's fixed part, and how its choices are written, whole or piece by piece."""

    prefix: str
    whole_type: Callable[..., _Reply]
    chunk_type: Callable[..., _Reply]

    def __init__(self, model: str, tokenizer: Tokenizer, *, logprobs: bool = False) -> None:
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model

    @abstractmethod
    def opening(self, answer: Choice) -> BaseModel | None:
        """What a choice's stream begins with, if anything."""

    @abstractmethod
    def piece(self, index: int, text: str) -> BaseModel:
        """More text of a choice."""

    @abstractmethod
    def scores(
        self, answer: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        """Log-probabilities of tokens whose text was told, if they were asked for."""

    @abstractmethod
    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        """The end of a choice."""

    @abstractmethod
    def complete(self, answer: Choice) -> BaseModel:
        """A choice at once."""

    def whole(self, answers: Sequence[Choice], usage: Usage, dragon: DragonReply | None) -> bytes:
        """The response of a request without `stream`."""
        choices = [self.complete(answer) for answer in answers]
        reply = self._reply(self.whole_type, choices, usage, dragon)
        return reply.model_dump_json().encode()

    def chunk(
        self,
        choice: BaseModel | None,
        usage: Usage | None = None,
        dragon: Dragon | None = None,
        *,
        with_usage: bool,
    ) -> bytes:
        """A chunk of a stream. `with_usage`: the client asked for usage, so all chunks name it."""
        choices = [] if choice is None else [choice]
        reply = self._reply(self.chunk_type, choices, usage, dragon)
        return reply.model_dump_json(exclude=None if with_usage else {"usage"}).encode()

    def _reply(
        self,
        kind: Callable[..., _Reply],
        choices: list[BaseModel],
        usage: Usage | None,
        dragon: Dragon | None,
    ) -> _Reply:
        return kind(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            dragon=dragon,
        )


class ChatShape(Shape):
    """`/v1/chat/completions`: the role comes first, the last delta is empty."""

    prefix = "chatcmpl"
    whole_type = ChatCompletion
    chunk_type = ChatCompletionChunk

    def opening(self, answer: Choice) -> BaseModel:
        return ChunkChoice(index=answer.index, delta=Delta(role="assistant", content=""))

    def piece(self, index: int, text: str) -> BaseModel:
        return ChunkChoice(index=index, delta=Delta(content=text))

    def scores(
        self, answer: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        if not self._logprobs:
            return None
        logprobs = chat_logprobs(details, self._tokenizer)
        return ChunkChoice(index=answer.index, delta=Delta(content=""), logprobs=logprobs)

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        return ChunkChoice(index=index, delta=Delta(), finish_reason=reason)

    def complete(self, answer: Choice) -> BaseModel:
        return ChatChoice(
            index=answer.index,
            message=ReplyMessage(content=answer.text),
            logprobs=chat_logprobs(answer.details, self._tokenizer) if self._logprobs else None,
            finish_reason=answer.end.reason,
        )


class TextShape(Shape):
    """`/v1/completions`. With `echo` the prompt comes first."""

    prefix = "cmpl"
    whole_type = chunk_type = Completion

    def __init__(
        self, model: str, tokenizer: Tokenizer, *, logprobs: bool = False, echo: bool = False
    ) -> None:
        super().__init__(model, tokenizer, logprobs=logprobs)
        self._echo = echo

    def opening(self, answer: Choice) -> BaseModel | None:
        return self.piece(answer.index, answer.request.query) if self._echo else None

    def piece(self, index: int, text: str) -> BaseModel:
        return TextChoice(index=index, text=text)

    def scores(
        self, answer: Choice, details: Sequence[TokenDetail], *, prompt: bool = False
    ) -> BaseModel | None:
        if not self._logprobs:
            return None
        placed = details if prompt else self._placed(answer, details)
        logprobs = text_logprobs(placed, self._tokenizer)
        return TextChoice(index=answer.index, text="", logprobs=logprobs)

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        return TextChoice(index=index, text="", finish_reason=reason)

    def complete(self, answer: Choice) -> BaseModel:
        prompt = self._prompt(answer)
        scored = [*answer.prompt, *self._placed(answer, answer.details)]
        return TextChoice(
            index=answer.index,
            text=prompt + answer.text,
            logprobs=text_logprobs(scored, self._tokenizer) if self._logprobs else None,
            finish_reason=answer.end.reason,
        )

    def _prompt(self, answer: Choice) -> str:
        """What stands before the answer's own text: a completion's query is its prompt."""
        return answer.request.query if self._echo else ""

    def _placed(self, answer: Choice, details: Sequence[TokenDetail]) -> list[TokenDetail]:
        """Tokens of the answer where they stand in the reply's text."""
        offset = len(self._prompt(answer))
        return [replace(detail, start=offset + detail.start) for detail in details]
