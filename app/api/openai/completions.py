"""`POST /v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.openai.delivery import begun, respond
from app.api.openai.models import require_model
from app.api.openai.openapi import failures, streamed
from app.api.openai.parameters import chat_requests, completion_requests
from app.api.openai.renderers import ChatRenderer, CompletionRenderer
from app.api.openai.responses import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CompletionChunk,
)
from app.api.openai.schemas import ChatBody, CompletionBody
from app.container import State

router = APIRouter(tags=["completions"])


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses={200: streamed(ChatCompletionChunk), **failures(404, 502, 503)},
)
async def create_chat_completion(http: Request, body: ChatBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    renderer = ChatRenderer(body, await chat_requests(body, state), state)
    events = begun(state, renderer.choices, body.user)
    return await respond(http, events, renderer, stream=bool(body.stream))


@router.post(
    "/v1/completions",
    response_model=Completion,
    responses={200: streamed(CompletionChunk), **failures(404, 502, 503)},
)
async def create_completion(http: Request, body: CompletionBody, state: State) -> Response:
    """Continue one prompt or several, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    renderer = CompletionRenderer(body, await completion_requests(body, state), state)
    events = begun(state, renderer.choices, body.user)
    return await respond(http, events, renderer, stream=bool(body.stream))
