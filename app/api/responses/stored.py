"""Responses in the conversations' tables: one answer each, under the one it follows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from app.api.openai.delivery import Events
from app.api.openai.turns import CallBody, CalledFunction, ChatMessage
from app.api.responses.render import ResponseView
from app.api.responses.shapes import InputItem, Status
from app.cancellation import to_the_end
from app.conversations.record import Before, Ending, Written
from app.conversations.store import ConversationStore
from app.generation.accumulator import AnswerState
from app.generation.events import Event, Finished
from app.problems import problem
from app.storage.tables import MessageState, StoredMessage
from dragon.errors import NotFoundError
from dragon.inference.reading import Reading
from dragon.inference.tools import CallFormat

_STATUS: dict[str, Status] = {
    MessageState.WRITING: "in_progress",
    MessageState.DONE: "completed",
    MessageState.STOPPED: "cancelled",
    MessageState.ERROR: "failed",
}


def key_of(message: StoredMessage) -> str:
    """The common part of the ids of a response and its items."""
    return message.id.partition("-")[2]


async def found(store: ConversationStore, response_id: str) -> StoredMessage:
    """The answer that is a response. Raises `NotFoundError`."""
    try:
        message = await store.message(f"msg-{response_id.removeprefix('resp_')}")
    except NotFoundError:
        message = None
    if message is None or "response" not in message.record:
        raise NotFoundError(f"There is no response '{response_id}'.")
    return message


async def history(store: ConversationStore, last: StoredMessage) -> list[ChatMessage]:
    """The turns up to an answer, including its own."""
    turns: list[ChatMessage] = []
    for message in await store.path(last.id):
        # A question, or an answer that was continued on the page.
        if (kept := message.record.get("response")) is None:
            turn = {"role": message.role, "content": message.text}
            turns.append(ChatMessage.model_validate(turn))
            continue
        # A question alone is already there.
        turns[-1:] = [ChatMessage.model_validate(turn) for turn in kept["input"]] or turns[-1:]
        turns.append(_answer(view(message)))
    return turns


async def input_items(store: ConversationStore, response_id: str) -> list[InputItem]:
    """The input of a response, in order. Raises `NotFoundError`."""
    message = await found(store, response_id)
    kept = message.record["response"]["input"]
    if not kept:
        *_, asked, _ = await store.path(message.id)
        kept = [{"role": "user", "content": asked.text}]
    key = key_of(message)
    items = (item for turn in kept for item in _items(ChatMessage.model_validate(turn)))
    return [
        InputItem(id=f"{prefix}_{key}_{number}", **fields)
        for number, (prefix, fields) in enumerate(items)
    ]


def _items(turn: ChatMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """A turn as items: what their ids begin with, and their fields."""
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


def question_of(turns: Sequence[ChatMessage], query: str) -> str:
    """The question to show in the conversation: the last text said or returned."""
    said = (turn.content for turn in reversed(turns) if turn.role in ("user", "tool"))
    return next((text for text in said if text), query)


def view(message: StoredMessage) -> ResponseView:
    """A stored response. What was found in a document deleted since is left out."""
    record = message.record
    kept, usage = record["response"], record.get("done", {}).get("usage")
    own = [source for source in record.get("sources", []) if source["side"] == "private"]
    cut_short = record.get("done", {}).get("finish_reason") == "length"
    return ResponseView(
        key=key_of(message),
        created_at=message.created_at,
        asked=kept["asked"],
        query=kept["query"],
        results=kept["results"],
        reading=Reading(
            CallFormat(**form) if (form := kept.get("form")) else None,
            reasons=kept.get("reasons", False),
            begun=kept.get("begun", False),
        ),
        status="incomplete" if cut_short else _STATUS[message.state],
        written=message.text,
        sources=[source for source in own if not source.get("deleted")],
        usage=usage and (usage["prompt_tokens"], usage["completion_tokens"]),
        problem=record.get("error", {}).get("message"),
    )


async def kept(
    events: Events,
    store: ConversationStore,
    message: StoredMessage,
    answer: AnswerState,
    asked: ResponseView,
    turns: Sequence[ChatMessage],
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of an answer, which is stored before its last one, or when they end.

    A refused answer is not stored.
    """
    written = Written(Before(), answer=answer)
    own = {
        "asked": dict(asked.asked),
        "query": asked.query,
        "results": asked.results,
        **asdict(asked.reading),
        # A question is a message of its own.
        "input": [] if [turn.role for turn in turns] == ["user"] else _plain(turns),
    }

    async def save(ending: Ending) -> None:
        written.ending = ending
        record = {**written.record, "response": own}
        await to_the_end(store.save(message.id, ending.state, written.text, record, []))

    ending: Ending | None = Ending(MessageState.STOPPED)
    begun = False
    try:
        # From here on it can be retrieved.
        await to_the_end(store.save(message.id, MessageState.WRITING, "", {"response": own}))
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
            await to_the_end(store.delete_turn(message.id))
        elif ending is not None:
            await save(ending)


def _plain(turns: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [turn.model_dump(exclude_none=True) for turn in turns]
