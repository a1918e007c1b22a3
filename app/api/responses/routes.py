"""`/v1/responses`: OpenAI's newer API, with the same answers, stored with the conversations."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.api.openai import dragon_fields
from app.api.openai.choices import Choice, choices_of
from app.api.openai.delivery import Events, as_stream, at_once, begun
from app.api.openai.logprobs import chat_logprobs
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.paging import Order, page
from app.api.openai.parameters import chat_requests
from app.api.openai.responses import DragonReply
from app.api.openai.tools import reading_of
from app.api.openai.vector_stores import limits
from app.api.responses import stored
from app.api.responses.bodies import ResponseBody
from app.api.responses.render import StreamRenderer, View
from app.api.responses.shapes import InputItems, ResponseDeleted, ResponseObject
from app.container import AppState, State
from app.generation.events import Finished, GenerationRequest
from app.problems import reported
from dragon.inference.reading import Reading

router = APIRouter(prefix="/v1/responses", tags=["responses"])

_EVENTS = {
    "content": {"text/event-stream": {"schema": {"type": "object"}}},
    "description": "At once; with `stream`, server-sent events as OpenAI names them.",
}


@dataclass(frozen=True)
class Call:
    """One request: its body, its answer, and its response before anything is written."""

    body: ResponseBody
    choice: Choice
    asked: View
    state: AppState

    def view(self) -> View:
        """The response of a finished answer."""
        answer = self.choice.answer
        end, tokenizer = answer.end, self.state.generation.tokenizer
        logprobs = chat_logprobs(answer.details, tokenizer).content
        return replace(
            self.asked,
            status="completed" if end.reason == "stop" else "incomplete",
            written=answer.text,
            sources=[vars(source) for source in answer.sources if source.side == "private"],
            logprobs=logprobs if self.body.wants_logprobs else (),
            usage=(end.prompt_tokens, end.completion_tokens),
        )

    def dragon(self) -> DragonReply | None:
        """How the answer came about, if requested."""
        if (own := self.body.dragon) is None:
            return None
        return dragon_fields.reply([self.choice], provenance=own.provenance)


@router.post("", response_model=ResponseObject, responses={200: _EVENTS, **failures(404, 502, 503)})
async def create_response(http: Request, body: ResponseBody, state: State) -> Response:
    """Answer an input, at once or as a stream; stored unless `store` is false."""
    model = require_model(body.model, state.generation.model_name)
    last, past = None, []
    if body.previous_response_id is not None:
        last = await stored.found(state.conversations, body.previous_response_id)
        past = await stored.history(state.conversations, last)
    stores = [] if body.search is None else body.search.vector_store_ids
    chat = body.as_chat(past, await limits(stores, state))
    requests = await chat_requests(chat, state)
    (choice,) = choices_of(requests, 1)
    reading = reading_of(chat, requests[0], state.generation.tokenizer)
    asked = _asked(body, model, requests[0], reading)
    events = begun(state, [choice.answer], body.user)
    if body.store is not False:
        conversation = None if last is None else last.conversation_id
        parent = None if last is None else last.id
        question = stored.question_of(body.turns, requests[0].query)
        _, _, message = await state.conversations.ask(
            conversation, parent, question, private=requests[0].private
        )
        asked = replace(asked, key=stored.key_of(message), created_at=message.created_at)
        events = stored.kept(events, state.conversations, message, choice.answer, asked, body.turns)
    call = Call(body, choice, asked, state)
    if body.stream:
        return await as_stream(http, events, partial(_frames, call))
    return await at_once(http, events, partial(_whole, call))


@router.get("/{response_id}", responses=failures(404))
async def get_response(response_id: str, state: State) -> ResponseObject:
    """A response that was stored."""
    return stored.view(await stored.found(state.conversations, response_id)).object()


@router.get("/{response_id}/input_items", responses=failures(404))
async def list_input_items(
    response_id: str,
    state: State,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
    order: Order = "desc",
) -> InputItems:
    """The input of a stored response, newest first unless `order` is `asc`."""
    items = await stored.input_items(state.conversations, response_id)
    return InputItems(**page(items[::-1], limit, after, order))


@router.delete("/{response_id}", responses=failures(404))
async def delete_response(response_id: str, state: State) -> ResponseDeleted:
    """Delete a response and those that follow it."""
    message = await stored.found(state.conversations, response_id)
    await state.conversations.delete_turn(message.id)
    return ResponseDeleted(id=response_id)


def _asked(body: ResponseBody, model: str, request: GenerationRequest, reading: Reading) -> View:
    """The response before anything is written; it has a temporary key until it is stored."""
    return View(
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


def _whole(call: Call) -> bytes:
    whole = call.view().object().model_copy(update={"dragon": call.dragon()})
    return whole.model_dump_json().encode()


async def _frames(call: Call, events: Events) -> AsyncGenerator[bytes, None]:
    renderer = StreamRenderer(call.asked)
    for frame in renderer.begin():
        yield frame
    try:
        async for _, event in events:
            made = renderer.take(event)
            if isinstance(event, Finished):
                made = renderer.end(call.view(), call.dragon())
            for frame in made:
                yield frame
    except Exception as error:
        found = reported(error, "an answer in mid-stream")
        for frame in renderer.fail(found.message):
            yield frame
