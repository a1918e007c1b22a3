"""`POST /v1/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.openai.choices import choices_of
from app.api.openai.models import require_model
from app.api.openai.openapi import failures, streamed
from app.api.openai.parameters import completion_requests
from app.api.openai.renderers import CompletionRenderer
from app.api.openai.respond import Call, respond
from app.api.openai.responses import Completion
from app.api.openai.schemas import CompletionBody
from app.container import State

router = APIRouter(tags=["completions"])


@router.post(
    "/v1/completions",
    response_model=Completion,
    responses={200: streamed(Completion), **failures(404, 502, 503)},
)
async def create_completion(http: Request, body: CompletionBody, state: State) -> Response:
    """Continue one prompt or several, at once or as a stream."""
    model = require_model(body.model, state.generation.model_name)
    requests = await completion_requests(body, state)
    renderer = CompletionRenderer(
        body,
        state.generation.tokenizer,
        state.generation.fingerprint(requests[0].mode),
        model,
        logprobs=body.logprobs is not None,
        echo=bool(body.echo),
    )
    choices = choices_of(requests, len(body.prompt))
    return await respond(http, state, Call(body, choices, len(body.prompt), renderer))
