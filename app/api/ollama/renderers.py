"""Pure renderers of Ollama's replies, whole or line by line, from an answer and its events."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.openai import dragon_fields
from app.api.openai.choices import Choice
from app.api.openai.logprobs import Pairing, TokenLogprob, chat_logprobs
from app.api.openai.responses import DragonReply
from app.generation.events import Detailed, Event, Finished, TextDelta, TokenDetail
from dragon.inference.reading import PLAIN, AnswerReader, Reading, Said, read
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import ToolCall


def _is_none(value: object) -> bool:
    return value is None


class OllamaReply(BaseModel):
    """The common fields of replies and their lines. Counts are tokens, durations nanoseconds."""

    model: str
    created_at: str
    done: bool
    done_reason: Literal["stop", "length", "load"] | None = Field(default=None, exclude_if=_is_none)
    total_duration: int | None = Field(default=None, exclude_if=_is_none)
    load_duration: int | None = Field(default=None, exclude_if=_is_none)
    prompt_eval_count: int | None = Field(default=None, exclude_if=_is_none)
    prompt_eval_duration: int | None = Field(default=None, exclude_if=_is_none)
    eval_count: int | None = Field(default=None, exclude_if=_is_none)
    eval_duration: int | None = Field(default=None, exclude_if=_is_none)
    logprobs: list[TokenLogprob] | None = Field(default=None, exclude_if=_is_none)
    dragon: DragonReply | None = Field(default=None, exclude_if=_is_none)


class OllamaFunction(BaseModel):
    """A function that the model calls, with its arguments as an object."""

    name: str
    arguments: dict[str, Any]


class OllamaCall(BaseModel):
    """A call."""

    id: str
    function: OllamaFunction

    @classmethod
    def of(cls, call: ToolCall) -> OllamaCall:
        """The reply's form of a call."""
        function = OllamaFunction(name=call.name, arguments=json.loads(call.arguments))
        return cls(id=call.id, function=function)


class OllamaTurn(BaseModel):
    """The assistant's turn, or a piece of it."""

    role: Literal["assistant"] = "assistant"
    content: str
    thinking: str | None = Field(default=None, exclude_if=_is_none)
    tool_calls: list[OllamaCall] | None = Field(default=None, exclude_if=_is_none)


class OllamaChatReply(OllamaReply):
    """A reply to `/api/chat`, or a line of one."""

    message: OllamaTurn


class OllamaGenerateReply(OllamaReply):
    """A reply to `/api/generate`, or a line of one."""

    response: str
    thinking: str | None = Field(default=None, exclude_if=_is_none)


class LineRenderer(ABC):
    """One reply. With `logprobs` tokens come with theirs, with `dragon` the end has its origin.

    The `reading` separates its calls and reasoning from the text.
    """

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        reading: Reading = PLAIN,
        *,
        logprobs: bool = False,
        dragon: bool = False,
    ) -> None:
        self._reading = reading
        self._reader = AnswerReader(self._reading)
        self._pairing = Pairing()
        self._model = model
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._dragon = dragon
        self._began = time.monotonic_ns()

    @abstractmethod
    def _reply(self, said: Said, **fields: object) -> OllamaReply:
        """A reply with this content."""

    def loaded(self) -> bytes:
        """The reply to an empty request."""
        return self._json(Said(), done=True, done_reason="load")

    def lines(self, choice: Choice, event: Event) -> Iterator[bytes]:
        """The lines for an event."""
        match event:
            case TextDelta() | Detailed() if self._logprobs:
                for piece, details in self._pairing.take(event):
                    yield from self._scored_line(piece.text, details)
            case TextDelta(text=text) if said := self._reader.push(text):
                yield self._json(said, done=False) + b"\n"
            case Finished():
                for piece, details in self._pairing.rest():
                    yield from self._scored_line(piece.text, details)
                if said := self._reader.finish():
                    yield self._json(said, done=False) + b"\n"
                yield self._json(Said(), **self._end(choice)) + b"\n"

    def _scored_line(self, text: str, details: Sequence[TokenDetail]) -> Iterator[bytes]:
        scores = self._scored(details)
        if (said := self._reader.push(text)) or scores:
            yield self._json(said, done=False, logprobs=scores) + b"\n"

    def whole(self, choice: Choice) -> bytes:
        """A finished answer."""
        answer = choice.answer
        scored = self._scored(answer.details) if self._logprobs else None
        said = read(answer.text, self._reading)
        return self._json(said, **self._end(choice), logprobs=scored)

    def _end(self, choice: Choice) -> dict[str, object]:
        end = choice.answer.end
        total = time.monotonic_ns() - self._began
        first = min(total, int(1e6 * end.stats.get("ttft_ms", 0.0)))
        return {
            "done": True,
            "done_reason": end.reason,
            "total_duration": total,
            "load_duration": 0,
            "prompt_eval_count": end.prompt_tokens,
            "prompt_eval_duration": first,
            "eval_count": end.completion_tokens,
            "eval_duration": total - first,
            "dragon": dragon_fields.reply([choice], provenance=False) if self._dragon else None,
        }

    def _scored(self, details: Sequence[TokenDetail]) -> list[TokenLogprob]:
        return chat_logprobs(details, self._tokenizer).content

    def _json(self, said: Said, /, **fields: object) -> bytes:
        return self._reply(said, **fields).model_dump_json().encode()

    def _fixed(self) -> dict[str, str]:
        return {"model": self._model, "created_at": datetime.now(UTC).isoformat()}


class ChatLines(LineRenderer):
    """`/api/chat`."""

    def _reply(self, said: Said, **fields: object) -> OllamaReply:
        called = [OllamaCall.of(call) for call in said.calls]
        message = OllamaTurn(
            content=said.text, thinking=said.reasoning or None, tool_calls=called or None
        )
        return OllamaChatReply.model_validate({**self._fixed(), "message": message, **fields})


class GenerateLines(LineRenderer):
    """`/api/generate`."""

    def _reply(self, said: Said, **fields: object) -> OllamaReply:
        told = {"response": said.text, "thinking": said.reasoning or None}
        return OllamaGenerateReply.model_validate({**self._fixed(), **told, **fields})
