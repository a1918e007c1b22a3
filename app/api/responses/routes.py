"""`/v1/responses`: OpenAI's newer API, with the same answers, stored with the conversations."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.openai.delivery import Events, begun, choice_of, respond
from app.api.openai.models import require_model
from app.api.openai.openapi import failures
from app.api.openai.paging import Deleted, Paged
from app.api.openai.parameters import chat_requests, reading_of
from app.api.openai.turns import CallBody, CalledFunction, ChatMessage
from app.api.openai.vector_stores import limits
from app.api.responses.bodies import RESULTS, ResponseBody
from app.api.responses.render import (
    InputItem,
    InputItems,
    ResponseObject,
    ResponseRenderer,
    ResponseView,
    Status,
)
from app.cancellation import to_the_end
from app.container import State
from app.conversations.record import Before, Ending, Written
from app.conversations.store import ConversationStore
from app.generation.accumulator import AnswerState
from app.generation.events import Event, Finished, GenerationRequest
from app.problems import problem
from app.storage.tables import MessageState, StoredMessage
from dragon.errors import NotFoundError
from dragon.inference.reading import Reading
from dragon.inference.tools import CallFormat

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
        last = await _find(state.conversations, body.previous_response_id)
        past = await _history(state.conversations, last)
    stores = [] if body.search is None else body.search.vector_store_ids
    chat = body.as_chat(past, await limits(stores, state))
    (request,) = await chat_requests(chat, state, "text.format")
    choice, tokenizer = choice_of(request), state.generation.tokenizer
    view = _asked(body, request, state.generation.model_name, reading_of(chat, request, tokenizer))
    events = begun(state, [choice], body.user)
    if body.store is not False:
        conversation, parent = (last.conversation_id, last.id) if last else (None, None)
        # The conversation shows the last text said or returned.
        said = (t.content for t in reversed(body.turns) if t.role in ("user", "tool") and t.content)
        question = next(said, request.query)
        _, _, message = await state.conversations.ask(
            conversation, parent, question, private=request.private
        )
        view = replace(view, key=_key_of(message), created_at=message.created_at)
        events = _storing(events, state.conversations, message, choice.answer, view, body.turns)
    renderer = ResponseRenderer(body, choice, view, tokenizer)
    return await respond(http, events, renderer, stream=bool(body.stream))


@router.get("/{response_id}")
async def get_response(response_id: str, state: State) -> ResponseObject:
    """A response that was stored."""
    return _view(await _find(state.conversations, response_id)).object()


@router.get("/{response_id}/input_items")
async def list_input_items(response_id: str, state: State, paging: Paged) -> InputItems:
    """The input of a stored response, newest first unless `order` is `asc`."""
    message = await _find(state.conversations, response_id)
    stored = message.record["response"]["input"]
    if not stored:
        *_, asked, _ = await state.conversations.path(message.id)
        stored = [{"role": "user", "content": asked.text}]
    items = [item for turn in stored for item in _items(ChatMessage.model_validate(turn))]
    listed = [
        InputItem(id=f"{prefix}_{_key_of(message)}_{number}", **fields)
        for number, (prefix, fields) in enumerate(items)
    ]
    return InputItems.of(listed[::-1], paging)


@router.delete("/{response_id}")
async def delete_response(response_id: str, state: State) -> Deleted:
    """Delete a response and those that follow it."""
    message = await _find(state.conversations, response_id)
    # Including answers that are being written after it.
    ledgers = await state.conversations.ledgers(message.conversation_id, message.id)
    await state.ledger.forget_given(ledgers)
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
            **body.model_dump(include=_AS_SENT, exclude_unset=True, by_alias=True),
        },
        query=None if body.search is None else request.query,
        results=RESULTS in body.include,
        reading=reading,
    )


# Parameters that a response shows as they were sent.
_AS_SENT = {"tool_choice", "parallel_tool_calls", "text", "truncation"}
_STATUS: dict[str, Status] = {
    MessageState.WRITING: "in_progress",
    MessageState.DONE: "completed",
    MessageState.STOPPED: "cancelled",
    MessageState.ERROR: "failed",
}


def _key_of(message: StoredMessage) -> str:
    """The common part of the ids of a response and its items."""
    return message.id.partition("-")[2]


async def _find(store: ConversationStore, response_id: str) -> StoredMessage:
    """The stored answer of a response. Raises `NotFoundError`."""
    try:
        message = await store.message(f"msg-{response_id.removeprefix('resp_')}")
    except NotFoundError:
        message = None
    if message is None or "response" not in message.record:
        raise NotFoundError(f"There is no response '{response_id}'.")
    return message


async def _history(store: ConversationStore, last: StoredMessage) -> list[ChatMessage]:
    """The turns up to an answer, including its own."""
    turns: list[ChatMessage] = []
    for message in await store.path(last.id):
        # A question, or an answer that was continued on the page.
        if (stored := message.record.get("response")) is None:
            turn = {"role": message.role, "content": message.text}
            turns.append(ChatMessage.model_validate(turn))
            continue
        # A single question is already there.
        turns[-1:] = [ChatMessage.model_validate(turn) for turn in stored["input"]] or turns[-1:]
        turns.append(_answer(_view(message)))
    return turns


def _items(turn: ChatMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """A turn as items: the prefix of each one's id, and its fields."""
    if turn.role == "tool":
        result = {"type": "function_call_output", "call_id": turn.tool_call_id}
        yield "fco", result | {"output": turn.content}
    elif turn.content is not None:
        part = "output_text" if turn.role == "assistant" else "input_text"
        content = [{"type": part, "text": turn.content}]
        yield "msg", {"type": "message", "role": turn.role, "content": content}
    for call in turn.tool_calls or ():
        named = call.function.model_dump(include={"name", "arguments"})
        yield "fc", {"type": "function_call", "call_id": call.id, **named}


def _answer(said: ResponseView) -> ChatMessage:
    """A response as a turn. A model's calls may have any name, and are not validated again."""
    calls = [
        CallBody.model_construct(
            id=call.call_id,
            function=CalledFunction.model_construct(name=call.name, arguments=call.arguments),
        )
        for call in said.calls
    ]
    return ChatMessage.model_construct(
        role="assistant", content=said.text, tool_calls=calls or None
    )


def _view(message: StoredMessage) -> ResponseView:
    """A stored response. Passages of documents deleted since are left out."""
    record = message.record
    stored, usage = record["response"], record.get("done", {}).get("usage")
    own = [source for source in record.get("sources", []) if source["side"] == "private"]
    cut_short = record.get("done", {}).get("finish_reason") == "length"
    return ResponseView(
        key=_key_of(message),
        created_at=message.created_at,
        asked=stored["asked"],
        query=stored["query"],
        results=stored["results"],
        reading=Reading(
            CallFormat(**form) if (form := stored.get("form")) else None,
            reasons=stored.get("reasons", False),
            begun=stored.get("begun", False),
        ),
        status="incomplete" if cut_short else _STATUS[message.state],
        written=message.text,
        sources=[source for source in own if not source.get("deleted")],
        usage=usage and (usage["prompt_tokens"], usage["completion_tokens"]),
        problem=record.get("error", {}).get("message"),
    )


async def _storing(
    events: Events,
    store: ConversationStore,
    message: StoredMessage,
    answer: AnswerState,
    asked: ResponseView,
    turns: Sequence[ChatMessage],
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of an answer, which is stored before its last event, or when the events end.

    A refused answer is not stored.
    """
    written = Written(Before(), answer=answer)
    # A question is a message of its own.
    single = [turn.role for turn in turns] == ["user"]
    own = {
        "asked": dict(asked.asked),
        "query": asked.query,
        "results": asked.results,
        **asdict(asked.reading),
        "input": [] if single else [turn.model_dump(exclude_none=True) for turn in turns],
    }

    async def save(ending: Ending) -> None:
        written.ending = ending
        record = {**written.record, "response": own}
        await to_the_end(store.save(message.id, ending.state, written.text, record, []))

    ending: Ending | None = Ending(MessageState.STOPPED)
    begun = False
    try:
        # From here on it can be retrieved.
        begun_with = {**written.record, "response": own}
        await to_the_end(store.save(message.id, MessageState.WRITING, "", begun_with))
        async with aclosing(events):
            async for index, event in events:
                begun = True
                if isinstance(event, Finished):
                    await save(Ending(MessageState.DONE))
                    ending = None
                yield index, event
    except Exception as error:
        ending = ending and Ending(MessageState.ERROR, problem(error))
        raise
    finally:
        if not begun:
            with suppress(NotFoundError):  # deleted meanwhile
                await to_the_end(store.delete_turn(message.id))
        elif ending is not None:
            await save(ending)
