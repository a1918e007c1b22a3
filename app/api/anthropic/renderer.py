"""A pure renderer of Anthropic's messages, whole or event by event, from an answer."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.openai import dragon_fields
from app.api.openai.choices import Choice
from app.api.openai.responses import DragonReply
from app.api.openai.schemas import DragonOptions
from app.api.openai.sse import named
from app.generation.events import Event, Finished, TextDelta
from dragon.inference.reading import AnswerReader, Reading, Said, read
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.tools import ToolCall

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


def _is_none(value: object) -> bool:
    return value is None


class TextReply(BaseModel):
    """Text of the answer, or a piece of it."""

    type: Literal["text"] = "text"
    text: str = ""

    def begun(self) -> TextReply:
        """Its first form in a stream."""
        return TextReply()

    def delta(self) -> dict[str, str]:
        """Its next piece in a stream."""
        return {"type": "text_delta", "text": self.text}


class ThinkingReply(BaseModel):
    """Reasoning before the answer, or a piece of it. Nothing here is signed."""

    type: Literal["thinking"] = "thinking"
    thinking: str = ""
    signature: str = ""

    def begun(self) -> ThinkingReply:
        """Its first form in a stream."""
        return ThinkingReply()

    def delta(self) -> dict[str, str]:
        """Its next piece in a stream."""
        return {"type": "thinking_delta", "thinking": self.thinking}


class ToolUseReply(BaseModel):
    """A tool that the model calls."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]

    @classmethod
    def of(cls, call: ToolCall) -> ToolUseReply:
        """The reply's form of a call."""
        return cls(id=call.id, name=call.name, input=json.loads(call.arguments))

    def begun(self) -> ToolUseReply:
        """Its first form in a stream."""
        return self.model_copy(update={"input": {}})

    def delta(self) -> dict[str, str]:
        """Its input in a stream."""
        return {"type": "input_json_delta", "partial_json": json.dumps(self.input)}


Block = Annotated[TextReply | ThinkingReply | ToolUseReply, Field(discriminator="type")]


class MessageUsage(BaseModel):
    """Tokens of the client's own prompt and of the answer; retrieved documents do not count."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class MessageReply(BaseModel):
    """The assistant's turn."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Block] = Field(default_factory=list)
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: MessageUsage
    dragon: DragonReply | None = Field(default=None, exclude_if=_is_none)


class MessageRenderer:
    """One reply, whose calls and reasoning the `reading` separates from the text.

    With our own `options`, its end reports its origin.
    """

    def __init__(
        self,
        model: str,
        choice: Choice,
        tokenizer: Tokenizer,
        reading: Reading,
        options: DragonOptions | None,
    ) -> None:
        self._choice = choice
        self._reading = reading
        self._options = options
        self._reader = AnswerReader(reading)
        prompt = choice.answer.request.prompt_tokens(tokenizer)
        self._begun = MessageReply(
            id=f"msg_{secrets.token_hex(12)}",
            model=model,
            usage=MessageUsage(input_tokens=prompt, output_tokens=0),
        )
        self._types: list[str] = []  # types of the stream's blocks; the last one is open

    def whole(self) -> bytes:
        """A finished answer."""
        content = _blocks(read(self._choice.answer.text, self._reading)) or [TextReply()]
        end = self._end([block.type for block in content])
        reply = self._begun.model_copy(update={"content": content, **end})
        return reply.model_dump_json().encode()

    def begin(self) -> bytes:
        """The first event of a stream."""
        return named("message_start", message=self._begun)

    def take(self, event: Event) -> Iterator[bytes]:
        """The stream's events for an event of the answer."""
        match event:
            case TextDelta(text=text):
                yield from self._say(_blocks(self._reader.push(text)))
            case Finished():
                yield from self._say(_blocks(self._reader.finish()))
                if not self._types:
                    yield from self._say([TextReply()])
                yield from self._close()
                end = self._end(self._types)
                about = {name: end.pop(name) for name in ("usage", "dragon") if name in end}
                yield named("message_delta", delta=end, **about)
                yield named("message_stop")

    def _say(self, blocks: Sequence[Block]) -> Iterator[bytes]:
        for block in blocks:
            if block.type == "tool_use" or block.type != (self._types or [""])[-1]:
                yield from self._close()
                self._types.append(block.type)
                yield self._of_block("start", content_block=block.begun())
            yield self._of_block("delta", delta=block.delta())

    def _close(self) -> Iterator[bytes]:
        if self._types:
            yield self._of_block("stop")

    def _of_block(self, kind: str, **fields: Any) -> bytes:
        return named(f"content_block_{kind}", index=len(self._types) - 1, **fields)

    def _end(self, types: Sequence[str]) -> dict[str, Any]:
        """Why an answer of these blocks ended, its usage, and its origin."""
        end = self._choice.answer.end
        reason: StopReason = "end_turn"
        if "tool_use" in types:
            reason = "tool_use"
        elif end.stop is not None:
            reason = "stop_sequence"
        elif end.reason == "length":
            reason = "max_tokens"
        found: dict[str, Any] = {
            "stop_reason": reason,
            "stop_sequence": end.stop if reason == "stop_sequence" else None,
            "usage": MessageUsage(
                input_tokens=end.prompt_tokens, output_tokens=end.completion_tokens
            ),
        }
        if self._options is not None:
            provenance = self._options.provenance
            found["dragon"] = dragon_fields.reply([self._choice], provenance=provenance)
        return found


def _blocks(said: Said) -> list[Block]:
    thought = [ThinkingReply(thinking=said.reasoning)] if said.reasoning else []
    text = [TextReply(text=said.text)] if said.text else []
    return [*thought, *text, *map(ToolUseReply.of, said.calls)]
