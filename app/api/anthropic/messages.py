"""`POST /v1/messages` and `/v1/messages/count_tokens`, as Anthropic's clients ask."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from app.api.anthropic.bodies import MessagesBody
from app.api.openai.delivery import Choice, EventStream, begun, choice_of, named, respond
from app.api.openai.field_types import UNSENT
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.parameters import chat_requests, reading_of
from app.api.openai.replies import DragonReply, dragon_reply
from app.api.openai.schemas import DragonOptions
from app.api.openai.tokenize import chat_ids
from app.container import State
from app.generation.events import Event, TextDelta
from app.generation.service import GenerationService
from app.problems import Problem
from dragon.inference.reading import AnswerReader, Reading, Said, read

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class TextReply(BaseModel):
    """Text of the answer, or a piece of it; `delta` is its next piece in a stream."""

    type: Literal["text"] = "text"
    text: str = ""

    def delta(self) -> dict[str, str]:
        return {"type": "text_delta", "text": self.text}


class ThinkingReply(BaseModel):
    """Reasoning before the answer, or a piece of it. Nothing here is signed."""

    type: Literal["thinking"] = "thinking"
    thinking: str = ""
    signature: str = ""

    def delta(self) -> dict[str, str]:
        return {"type": "thinking_delta", "thinking": self.thinking}


class ToolUseReply(BaseModel):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]

    def delta(self) -> dict[str, str]:
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
    dragon: Annotated[DragonReply | None, UNSENT] = None


class MessageRenderer:
    """Renders one reply; `reading` separates its calls and reasoning from the text.

    With our own `options`, the reply ends with its origin.
    """

    def __init__(
        self,
        choice: Choice,
        generation: GenerationService,
        reading: Reading,
        options: DragonOptions | None,
    ) -> None:
        self._choice = choice
        self._reading = reading
        self._options = options
        self._reader = AnswerReader(reading)
        prompt = choice.answer.request.prompt_tokens(generation.tokenizer)
        self._begun = MessageReply(
            id=f"msg_{secrets.token_hex(12)}",
            model=generation.model_name,
            usage=MessageUsage(input_tokens=prompt, output_tokens=0),
        )
        self._types: list[str] = []  # types of the stream's blocks; the last one is open

    def whole(self) -> bytes:
        content = _blocks(read(self._choice.answer.text, self._reading)) or [TextReply()]
        end, about = self._end([block.type for block in content])
        reply = self._begun.model_copy(update={"content": content, **end, **about})
        return reply.model_dump_json().encode()

    def begin(self) -> Iterator[bytes]:
        yield named("message_start", message=self._begun)

    def take(self, _: int, event: Event) -> Iterator[bytes]:
        if isinstance(event, TextDelta):
            yield from self._say(_blocks(self._reader.push(event.text)))

    def end(self) -> Iterator[bytes]:
        yield from self._say(_blocks(self._reader.finish()))
        if not self._types:
            yield from self._say([TextReply()])
        yield from self._close()
        end, about = self._end(self._types)
        yield named("message_delta", delta=end, **about)
        yield named("message_stop")

    def failed(self, found: Problem) -> bytes:
        """An error; neither a stop reason nor an end follows it."""
        return named("error", **found.as_anthropic())

    def _say(self, blocks: Sequence[Block]) -> Iterator[bytes]:
        for block in blocks:
            if block.type == "tool_use" or block.type != (self._types or [""])[-1]:
                yield from self._close()
                self._types.append(block.type)
                if isinstance(block, ToolUseReply):
                    empty: Block = block.model_copy(update={"input": {}})
                else:
                    empty = type(block)()
                yield self._of_block("start", content_block=empty)
            yield self._of_block("delta", delta=block.delta())

    def _close(self) -> Iterator[bytes]:
        if self._types:
            yield self._of_block("stop")

    def _of_block(self, kind: str, **fields: Any) -> bytes:
        return named(f"content_block_{kind}", index=len(self._types) - 1, **fields)

    def _end(self, types: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Why an answer of these blocks ended; its usage and, if requested, its origin."""
        end = self._choice.answer.end
        reason: StopReason = "end_turn"
        if "tool_use" in types:
            reason = "tool_use"
        elif end.stop is not None:
            reason = "stop_sequence"
        elif end.reason == "length":
            reason = "max_tokens"
        stop = end.stop if reason == "stop_sequence" else None
        usage = MessageUsage(input_tokens=end.prompt_tokens, output_tokens=end.completion_tokens)
        about: dict[str, Any] = {"usage": usage}
        if (origin := dragon_reply([self._choice], self._options)) is not None:
            about["dragon"] = origin
        return {"stop_reason": reason, "stop_sequence": stop}, about


def _blocks(said: Said) -> list[Block]:
    thought = [ThinkingReply(thinking=said.reasoning)] if said.reasoning else []
    text = [TextReply(text=said.text)] if said.text else []
    calls = [
        ToolUseReply(id=call.id, name=call.name, input=json.loads(call.arguments))
        for call in said.calls
    ]
    return [*thought, *text, *calls]


router = APIRouter(prefix="/v1/messages", tags=["anthropic"])

_EVENTS: dict[str, Any] = {
    "content": {"text/event-stream": {"schema": {"type": "object"}}},
    "description": "At once; with `stream`, server-sent events as Anthropic names them.",
}


class MessageStream(EventStream):
    """Events, with Anthropic's own `ping` to keep a silent connection alive."""

    comment = named("ping")


class TokenCount(BaseModel):
    """The number of tokens of a prompt."""

    input_tokens: int


@router.post("", response_model=MessageReply, responses={200: _EVENTS, **failures(404, 502, 503)})
async def create_message(http: Request, body: MessagesBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    chat = body.as_openai()
    (request,) = await chat_requests(chat, state, "output_config.format")
    choice = choice_of(request)
    reading = reading_of(chat, request, state.generation.tokenizer)
    renderer = MessageRenderer(choice, state.generation, reading, body.dragon)
    events = begun(state, [choice], body.metadata.user_id)
    return await respond(http, events, renderer, stream=bool(body.stream), kind=MessageStream)


@router.post("/count_tokens", responses=failures(404))
async def count_tokens(body: MessagesBody, state: State) -> TokenCount:
    """Count the tokens of a message's prompt, including tools and template."""
    require_model(body.model, state.generation.model_name)
    chat = body.as_openai()
    ids = await chat_ids(chat, chat.messages, state.generation.tokenizer)
    return TokenCount(input_tokens=len(ids))
