"""`POST /api/chat` and `/api/generate` in Ollama's form: streams of JSON lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.ollama.bodies import USUAL_TEMPERATURE, OllamaChatBody, OllamaGenerateBody
from app.api.ollama.renderers import (
    ChatLines,
    GenerateLines,
    LineRenderer,
    OllamaChatReply,
    OllamaGenerateReply,
)
from app.api.openai.choices import Choice, choices_of
from app.api.openai.delivery import Events, as_stream, at_once, begun
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.parameters import chat_requests, completion_requests
from app.api.openai.schemas import ChatBody
from app.api.openai.sse import EventStream
from app.api.openai.tools import reading_of
from app.container import AppState, State
from app.problems import reported
from dragon.inference.reading import PLAIN

router = APIRouter(prefix="/api", tags=["ollama"])

_LINES: dict[str, Any] = {
    "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    "description": "At once if `stream` is false, else a line of JSON for each piece of it.",
}


class LineStream(EventStream):
    """JSON lines; these have no comments to keep a silent connection alive."""

    media_type = "application/x-ndjson"
    comment = b""


@router.post(
    "/chat", response_model=OllamaChatReply, responses={200: _LINES, **failures(404, 502, 503)}
)
async def chat(http: Request, body: OllamaChatBody, state: State) -> Response:
    """Answer a conversation."""
    return await _respond(http, state, body, ChatLines, wanted=bool(body.messages))


@router.post(
    "/generate",
    response_model=OllamaGenerateReply,
    responses={200: _LINES, **failures(404, 502, 503)},
)
async def generate(http: Request, body: OllamaGenerateBody, state: State) -> Response:
    """Answer a prompt, continue it, or fill in the text between it and a suffix."""
    return await _respond(http, state, body, GenerateLines, wanted=bool(body.prompt or body.suffix))


async def _respond(
    http: Request,
    state: AppState,
    body: OllamaChatBody | OllamaGenerateBody,
    kind: type[LineRenderer],
    *,
    wanted: bool,
) -> Response:
    usual = USUAL_TEMPERATURE if state.generation.usual.temperature is None else None
    asked = body.as_openai(usual) if wanted else None
    tokenizer = state.generation.tokenizer
    made = partial(
        kind, body.model, tokenizer, logprobs=bool(body.logprobs), dragon=body.dragon is not None
    )
    require_model(body.name, state.generation.model_name)
    if asked is None:
        return Response(made().loaded(), media_type="application/json")
    reading = PLAIN
    if isinstance(asked, ChatBody):
        requests = await chat_requests(asked, state)
        reading = reading_of(asked, requests[0], tokenizer)
    else:
        requests = await completion_requests(asked, state)
    renderer = made(reading=reading)
    (choice,) = choices_of(requests, 1)
    events = begun(state, [choice.answer])
    if body.stream is False:
        return await at_once(http, events, partial(renderer.whole, choice))
    return await as_stream(http, events, partial(_lines, renderer, choice), LineStream)


async def _lines(
    renderer: LineRenderer, choice: Choice, events: Events
) -> AsyncGenerator[bytes, None]:
    """The stream's lines. An error is the last one, without `done`."""
    try:
        async for _, event in events:
            for line in renderer.lines(choice, event):
                yield line
    except Exception as error:
        found = reported(error, "an answer in mid-stream")
        yield orjson.dumps({"error": found.body()["error"]["message"]}) + b"\n"
