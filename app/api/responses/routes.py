"""`/v1/responses`: OpenAI's newer API, with the same answers, stored with the conversations."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.openai.delivery import begun, choice_of, respond
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.paging import Deleted, Paged
from app.api.openai.parameters import chat_requests, reading_of
from app.api.openai.vector_stores import limits
from app.api.responses import stored
from app.api.responses.bodies import ResponseBody
from app.api.responses.render import ResponseRenderer, ResponseView
from app.api.responses.shapes import InputItems, ResponseObject
from app.container import State
from app.generation.events import GenerationRequest
from dragon.inference.reading import Reading

router = APIRouter(prefix="/v1/responses", tags=["responses"])

_EVENTS = {
    "content": {"text/event-stream": {"schema": {"type": "object"}}},
    "description": "At once; with `stream`, server-sent events as OpenAI names them.",
}


@router.post("", response_model=ResponseObject, responses={200: _EVENTS, **failures(404, 502, 503)})
async def create_response(http: Request, body: ResponseBody, state: State) -> Response:
    """Answer an input, at once or as a stream; stored unless `store` is false."""
    require_model(body.model, state.generation.model_name)
    last, past = None, []
    if body.previous_response_id is not None:
        last = await stored.found(state.conversations, body.previous_response_id)
        past = await stored.history(state.conversations, last)
    stores = [] if body.search is None else body.search.vector_store_ids
    chat = body.as_chat(past, await limits(stores, state))
    (request,) = await chat_requests(chat, state)
    choice, tokenizer = choice_of(request), state.generation.tokenizer
    view = _asked(body, request, state.generation.model_name, reading_of(chat, request, tokenizer))
    events = begun(state, [choice], body.user)
    if body.store is not False:
        conversation = None if last is None else last.conversation_id
        parent = None if last is None else last.id
        question = stored.question_of(body.turns, request.query)
        _, _, message = await state.conversations.ask(
            conversation, parent, question, private=request.private
        )
        view = replace(view, key=stored.key_of(message), created_at=message.created_at)
        events = stored.kept(events, state.conversations, message, choice.answer, view, body.turns)
    renderer = ResponseRenderer(body, choice, view, tokenizer)
    return await respond(http, events, renderer, stream=bool(body.stream))


@router.get("/{response_id}", responses=failures(404))
async def get_response(response_id: str, state: State) -> ResponseObject:
    """A response that was stored."""
    return stored.view(await stored.found(state.conversations, response_id)).object()


@router.get("/{response_id}/input_items", responses=failures(404))
async def list_input_items(response_id: str, state: State, paging: Paged) -> InputItems:
    """The input of a stored response, newest first unless `order` is `asc`."""
    items = await stored.input_items(state.conversations, response_id)
    return InputItems.of(items[::-1], paging)


@router.delete("/{response_id}", responses=failures(404))
async def delete_response(response_id: str, state: State) -> Deleted:
    """Delete a response and those that follow it."""
    message = await stored.found(state.conversations, response_id)
    await state.conversations.delete_turn(message.id)
    return Deleted(id=response_id, object="response")


def _asked(
    body: ResponseBody, request: GenerationRequest, model: str, reading: Reading
) -> ResponseView:
    """The response before anything is written; it has a temporary key until it is stored."""
    return ResponseView(
        key=secrets.token_hex(12),
        created_at=int(time.time()),
        asked={
            "model": model,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "previous_response_id": body.previous_response_id,
            "store": body.store is not False,
            "temperature": request.sampling.temperature,
            "tools": [tool.model_dump(exclude_none=True) for tool in body.tools],
            "top_p": request.sampling.top_p,
            "metadata": body.metadata or {},
            **_given(body),
        },
        query=None if body.search is None else request.query,
        results=body.wants_results,
        reading=reading,
    )


def _given(body: ResponseBody) -> dict[str, Any]:
    """The parameters that were sent, as they were."""
    names = {"tool_choice", "parallel_tool_calls", "text", "truncation"}
    return body.model_dump(include=names, exclude_none=True, by_alias=True)
