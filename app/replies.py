"""Responses and stream chunks in OpenAI's shapes."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.choices import Choice

FinishReason = Literal["stop", "length"]


def _is_none(value: object) -> bool:
    return value is None


class Usage(BaseModel):
    """Tokens of the client's own prompt and of the answers; retrieved documents do not count."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class SourceReply(BaseModel):
    """A document that an answer was conditioned on."""

    side: Literal["private", "public"]
    id: str
    title: str
    text: str
    score: float
    weight: float
    page: int | None
    start: int | None
    end: int | None


class DragonChoice(BaseModel):
    """How one choice came about. `participation`: token ranges, half open, written jointly.

    `verdicts`: whose draft each of those tokens is (`=` both sides', `d` device, `c` cloud, `.`).
    `nothing_relevant`: none of the person's documents is about this.
    """

    index: int
    sources: list[SourceReply]
    nothing_relevant: bool
    participation: list[tuple[int, int]]
    verdicts: str
    stats: dict[str, float]


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


class _Reply(BaseModel):
    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None = None
    choices: list[Any]
    usage: Usage | None = None
    dragon: DragonReply | DragonNotice | None = Field(default=None, exclude_if=_is_none)


class Delta(BaseModel):
    """What a chunk adds to a chat message; empty in the last one."""

    role: Literal["assistant"] | None = Field(default=None, exclude_if=_is_none)
    content: str | None = Field(default=None, exclude_if=_is_none)


class ChunkChoice(BaseModel):
    """One choice's part of a chunk of chat."""

    index: int
    delta: Delta
    logprobs: None = None
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
    logprobs: None = None
    finish_reason: FinishReason


class TextChoice(BaseModel):
    """One choice of a completion, whole or a part of it."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: FinishReason | None = None


class Shape(ABC):
    """One response's fixed part, and how its choices are written, whole or piece by piece."""

    prefix: str
    whole_object: str
    chunk_object: str

    def __init__(self, model: str) -> None:
        self._id = f"{self.prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model

    @abstractmethod
    def opening(self, index: int) -> BaseModel | None:
        """What a choice's stream begins with, if anything."""

    @abstractmethod
    def piece(self, index: int, text: str) -> BaseModel:
        """More text of a choice."""

    @abstractmethod
    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        """The end of a choice."""

    @abstractmethod
    def complete(self, answer: Choice) -> BaseModel:
        """A choice at once."""

    def whole(self, answers: Sequence[Choice], usage: Usage, dragon: DragonReply | None) -> bytes:
        """The response of a request without `stream`."""
        choices = [self.complete(answer) for answer in answers]
        reply = self._reply(self.whole_object, choices, usage, dragon)
        return reply.model_dump_json().encode()

    def chunk(
        self,
        choice: BaseModel | None,
        usage: Usage | None = None,
        dragon: DragonReply | DragonNotice | None = None,
        *,
        with_usage: bool,
    ) -> bytes:
        """A chunk of a stream. `with_usage`: the client asked for usage, so all chunks name it."""
        choices = [] if choice is None else [choice]
        reply = self._reply(self.chunk_object, choices, usage, dragon)
        return reply.model_dump_json(exclude=None if with_usage else {"usage"}).encode()

    def _reply(
        self,
        kind: str,
        choices: list[BaseModel],
        usage: Usage | None,
        dragon: DragonReply | DragonNotice | None,
    ) -> _Reply:
        return _Reply(
            id=self._id,
            object=kind,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            dragon=dragon,
        )


class ChatShape(Shape):
    """`/v1/chat/completions`: the role comes first, the last delta is empty."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self, index: int) -> BaseModel:
        return ChunkChoice(index=index, delta=Delta(role="assistant", content=""))

    def piece(self, index: int, text: str) -> BaseModel:
        return ChunkChoice(index=index, delta=Delta(content=text))

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        return ChunkChoice(index=index, delta=Delta(), finish_reason=reason)

    def complete(self, answer: Choice) -> BaseModel:
        return ChatChoice(
            index=answer.index,
            message=ReplyMessage(content=answer.text),
            finish_reason=answer.end.reason,
        )


class TextShape(Shape):
    """`/v1/completions`."""

    prefix = "cmpl"
    whole_object = chunk_object = "text_completion"

    def opening(self, index: int) -> None:
        return None

    def piece(self, index: int, text: str) -> BaseModel:
        return TextChoice(index=index, text=text)

    def closing(self, index: int, reason: FinishReason) -> BaseModel:
        return TextChoice(index=index, text="", finish_reason=reason)

    def complete(self, answer: Choice) -> BaseModel:
        return TextChoice(index=answer.index, text=answer.text, finish_reason=answer.end.reason)
