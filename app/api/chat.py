"""`POST /v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.respond import Job, plan, require_model, respond
from app.prompts import chat_prompt
from app.replies import ChatShape
from app.schemas import ChatBody, as_messages
from app.state import State

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(http: Request, body: ChatBody, state: State) -> Response:
    """Answer a conversation, at once or as a stream."""
    require_model(body.model, state)
    prompt = await chat_prompt(state.generation, as_messages(body.messages))
    limit = body.max_completion_tokens or body.max_tokens
    requests = plan(body, [prompt], limit, state, raw=False, details=body.details)
    shape = ChatShape(body.model, state.generation.tokenizer, logprobs=bool(body.logprobs))
    return await respond(http, state, Job.of(body, requests, 1, shape))
