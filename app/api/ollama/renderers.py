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
from app.api.openai.logprobs import TokenLogprob, chat_logprobs
from app.api.openai.responses import DragonReply
from app.generation.events import Detailed, Event, Finished, TextDelta, TokenDetail
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import CallReader, Form, ToolCall, read


def _is_none(value: object) -> bool:
    return value is None


class OllamaReply(BaseModel):
    """What every reply and every line of one has. Counts are tokens, durations nanoseconds."""

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
    tool_calls: list[OllamaCall] | None = Field(default=None, exclude_if=_is_none)


class OllamaChatReply(OllamaReply):
    """A reply to `/api/chat`, or a line of one."""

    message: OllamaTurn


class OllamaGenerateReply(OllamaReply):
    """A reply to `/api/generate`, or a line of one."""

    response: str


class LineRenderer(ABC):
    """One reply. With `logprobs` tokens come with theirs, with `dragon` the end says its origin.

    Calls are read out of it in the `form`, if there is one.
    """

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        form: Form | None = None,
        *,
        logprobs: bool = False,
        dragon: bool = False,
    ) -> None:
        self._form = form
        self._reader = None if form is None else CallReader(form)
        self._model = model
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._dragon = dragon
        self._began = time.monotonic_ns()

    @abstractmethod
    def _reply(self, text: str, calls: Sequence[ToolCall], **fields: object) -> OllamaReply:
        """A reply with this text and these calls."""

    def loaded(self) -> bytes:
        """The reply to a request for nothing."""
        return self._json("", done=True, done_reason="load")

    def lines(self, choice: Choice, event: Event) -> Iterator[bytes]:
        """The lines that an event makes."""
        match event:
            case TextDelta(text=text) if text:
                said, calls = (text, []) if self._reader is None else self._reader.push(text)
                if said or calls:
                    yield self._json(said, calls, done=False) + b"\n"
            case Detailed(details=details) if self._logprobs:
                yield self._json("", done=False, logprobs=self._scored(details)) + b"\n"
            case Finished():
                said, calls = ("", []) if self._reader is None else self._reader.finish()
                if said or calls:
                    yield self._json(said, calls, done=False) + b"\n"
                yield self._json("", **self._end(choice)) + b"\n"

    def whole(self, choice: Choice) -> bytes:
        """A finished answer."""
        answer = choice.answer
        scored = self._scored(tuple(answer.details)) if self._logprobs else None
        said, calls = (answer.text, []) if self._form is None else read(answer.text, self._form)
        return self._json(said, calls, **self._end(choice), logprobs=scored)

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

    def _scored(self, details: tuple[TokenDetail, ...]) -> list[TokenLogprob]:
        return chat_logprobs(details, self._tokenizer).content

    def _json(self, text: str, calls: Sequence[ToolCall] = (), /, **fields: object) -> bytes:
        return self._reply(text, calls, **fields).model_dump_json().encode()

    def _fixed(self) -> dict[str, str]:
        return {"model": self._model, "created_at": datetime.now(UTC).isoformat()}


class ChatLines(LineRenderer):
    """`/api/chat`."""

    def _reply(self, text: str, calls: Sequence[ToolCall], **fields: object) -> OllamaReply:
        called = [OllamaCall.of(call) for call in calls]
        message = OllamaTurn(content=text, tool_calls=called or None)
        return OllamaChatReply.model_validate({**self._fixed(), "message": message, **fields})


class GenerateLines(LineRenderer):
    """`/api/generate`."""

    def _reply(self, text: str, calls: Sequence[ToolCall], **fields: object) -> OllamaReply:
        return OllamaGenerateReply.model_validate({**self._fixed(), "response": text, **fields})
