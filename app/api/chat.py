"""`POST /v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.models import require_model
from app.api.requests import plan
from app.api.respond import Job, respond
from app.generation.prompts import chat_prompt
from app.openapi import failures, streamed
from app.replies import ChatCompletion, ChatCompletionChunk
from app.schemas import ChatBody, as_messages
from app.shapes import ChatShape
from app.state import State

router = APIRouter(tags=["chat"])


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses={200: streamed(ChatCompletionChunk), **failures(404, 502, 503)},
)
async def create_chat_completion(http: Request, body: ChatBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    require_model(body.model, state.generation.model_name)
    prompt = await chat_prompt(state.generation, as_messages(body.messages))
    limit = body.max_completion_tokens or body.max_tokens
    requests = plan(body, [prompt], limit, state, raw=False, details=body.details)
    shape = ChatShape(body.model, state.generation.tokenizer, logprobs=bool(body.logprobs))
    return await respond(http, state, Job.of(body, requests, 1, shape))
