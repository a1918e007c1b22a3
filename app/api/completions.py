"""`POST /v1/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.respond import Job, plan, require_model, respond
from app.prompts import text_prompt
from app.replies import TextShape
from app.schemas import CompletionBody
from app.state import State

router = APIRouter()


@router.post("/v1/completions")
async def create_completion(http: Request, body: CompletionBody, state: State) -> Response:
    """Continue one prompt or several, at once or as a stream."""
    require_model(body.model, state)
    prompts = [await text_prompt(state.generation, prompt) for prompt in body.prompt]
    requests = plan(
        body,
        prompts,
        body.max_tokens,
        state,
        raw=True,
        details=body.details,
        best_of=body.best_of,
    )
    shape = TextShape(
        body.model,
        state.generation.tokenizer,
        logprobs=body.logprobs is not None,
        echo=bool(body.echo),
    )
    return await respond(http, state, Job.of(body, requests, len(prompts), shape))
