"""`POST /v1/messages` and `/v1/messages/count_tokens`, as Anthropic's clients ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.api.anthropic.bodies import MessagesBody
from app.api.anthropic.renderer import MessageRenderer, MessageReply
from app.api.openai.choices import choices_of
from app.api.openai.delivery import Events, as_stream, at_once, begun
from app.api.openai.models import require_model
from app.api.openai.openapi import MessageErrorReply, failures
from app.api.openai.parameters import chat_requests, rendering_of
from app.api.openai.schemas import as_messages
from app.api.openai.sse import EventStream, named
from app.api.openai.tokenize import chat_ids
from app.api.openai.tools import offered, reading_of
from app.container import State
from app.problems import reported

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


@router.post(
    "",
    response_model=MessageReply,
    responses={200: _EVENTS, **failures(404, 502, 503, shape=MessageErrorReply)},
)
async def create_message(http: Request, body: MessagesBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    generation = state.generation
    model = require_model(body.model, generation.model_name)
    chat = body.as_openai()
    (request,) = await chat_requests(chat, state)
    (choice,) = choices_of([request], 1)
    reading = reading_of(chat, request, generation.tokenizer)
    renderer = MessageRenderer(model, choice, generation.tokenizer, reading, body.dragon)
    events = begun(state, [choice.answer], body.user)
    if body.stream:
        return await as_stream(http, events, partial(_frames, renderer), MessageStream)
    return await at_once(http, events, renderer.whole)


async def _frames(renderer: MessageRenderer, events: Events) -> AsyncGenerator[bytes, None]:
    """The stream's events. An error is the last one: no stop reason and no end follow."""
    try:
        yield renderer.begin()
        async for _, event in events:
            for frame in renderer.take(event):
                yield frame
    except Exception as error:
        problem = reported(error, "an answer in mid-stream")
        yield named("error", **problem.as_anthropic())


@router.post("/count_tokens", responses=failures(404, shape=MessageErrorReply))
async def count_tokens(body: MessagesBody, state: State) -> TokenCount:
    """Count the tokens of a message's prompt, including tools and template."""
    tokenizer = state.generation.tokenizer
    require_model(body.model, state.generation.model_name)
    chat = body.as_openai()
    messages = as_messages(chat.messages)
    tools, _ = offered(chat, tokenizer, messages)
    ids = await chat_ids(tokenizer, messages, rendering_of(chat, tools, tokenizer))
    return TokenCount(input_tokens=len(ids))
