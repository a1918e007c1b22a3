"""`POST /v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.openai.choices import choices_of
from app.api.openai.models import require_model
from app.api.openai.openapi import failures, streamed
from app.api.openai.parameters import chat_requests
from app.api.openai.renderers import ChatRenderer
from app.api.openai.respond import Call, respond
from app.api.openai.responses import ChatCompletion, ChatCompletionChunk
from app.api.openai.schemas import ChatBody
from app.container import State

router = APIRouter(tags=["chat"])


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses={200: streamed(ChatCompletionChunk), **failures(404, 502, 503)},
)
async def create_chat_completion(http: Request, body: ChatBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    model = require_model(body.model, state.generation.model_name)
    requests = await chat_requests(body, state)
    generation = state.generation
    fingerprint = generation.fingerprint(requests[0].mode)
    renderer = ChatRenderer(
        body, generation.tokenizer, fingerprint, model, logprobs=bool(body.logprobs)
    )
    return await respond(http, state, Call(body, choices_of(requests, 1), 1, renderer))
