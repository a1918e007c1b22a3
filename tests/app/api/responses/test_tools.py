"""Function tools and formats of `/v1/responses`, as the stock client sends and reads them."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from app.settings import Settings
from tests.app.api.openai.test_tools import ARGUMENTS, MODEL, PARAMETERS, calls
from tests.app.stores import known
from tests.fakes import SOURCE, FakeGeneration

__all__ = ["calls"]  # a fixture

ASK = "Where is the key?"
TOOLS: list[Any] = [
    {"type": "function", "name": "find_key", "parameters": PARAMETERS, "strict": True},
    {"type": "function", "name": "now"},
]
SEARCH: dict[str, Any] = {"type": "file_search", "vector_store_ids": []}


@pytest.fixture(autouse=True)
def tables(settings: Settings) -> None:
    known(settings.data_dir, SOURCE.id, SOURCE.title)


def called(reply: Any) -> list[Any]:
    return [item for item in reply.output if item.type == "function_call"]


def check(reply: Any, calls: int) -> None:
    """Two calls stand behind a text, one stands alone."""
    assert reply.status == "completed"
    kinds = [item.type for item in reply.output if item.type != "file_search_call"]
    assert kinds == [*["message"] * (calls == 2), *["function_call"] * calls]
    assert reply.output_text == ("Let me look." if calls == 2 else "")
    found = called(reply)
    assert [(call.name, call.status) for call in found] == [("find_key", "completed")] * calls
    assert [json.loads(call.arguments) for call in found] == [ARGUMENTS] * calls
    assert len({call.call_id for call in found} | {call.id for call in found}) == 2 * calls


def test_calls_are_items_and_stored(stock: openai.OpenAI, calls: int) -> None:
    reply = stock.responses.create(model=MODEL, input=ASK, tools=TOOLS)
    check(reply, calls)
    assert [tool.name for tool in reply.tools] == ["find_key", "now"]
    assert stock.responses.retrieve(reply.id) == reply


@pytest.mark.parametrize("tools", [TOOLS, [SEARCH, *TOOLS]])
def test_streamed_calls_are_in_openais_order(
    stock: openai.OpenAI, calls: int, tools: list[Any]
) -> None:
    events = list(stock.responses.create(model=MODEL, input=ASK, tools=tools, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = events[-1].response
    check(whole, calls)
    kinds = [event.type.removeprefix("response.") for event in events]
    first = "output_item.added", "function_call_arguments.delta", "function_call_arguments.done"
    assert kinds[-1 - 4 * calls :] == [*[*first, "output_item.done"] * calls, "completed"]
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.output_index for event in done] == list(range(len(whole.output)))
    assert [event.item.id for event in done] == [item.id for item in whole.output]
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output_text
    with stock.responses.stream(model=MODEL, input=ASK, tools=tools) as stream:
        stream.until_done()
        check(stream.get_final_response(), calls)


@pytest.mark.parametrize("stored", [True, False])
def test_what_was_returned_goes_on_from_a_response_or_from_the_items_themselves(
    stock: openai.OpenAI, generation: FakeGeneration, calls: int, *, stored: bool
) -> None:
    first = stock.responses.create(model=MODEL, input=ASK, tools=TOOLS, store=stored)
    returned: list[Any] = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"In box {number}."}
        for number, call in enumerate(called(first))
    ]
    if stored:
        more = {"input": returned, "previous_response_id": first.id}
    else:
        sent = [item.model_dump(exclude_none=True) for item in first.output]
        more = {"input": [{"role": "user", "content": ASK}, *sent, *returned]}
    second = stock.responses.create(model=MODEL, tools=TOOLS, **more)
    request = generation.requests[-1]
    roles = [message.role for message in request.messages]
    assert roles == ["user", "assistant", *["tool"] * calls]
    assert [call.id for call in request.messages[1].calls] == [c.call_id for c in called(first)]
    assert request.query == ASK
    shown = generation.tokenizer.decode(list(request.conversation), special=True)
    assert shown.index('{"room": "attic"}') < shown.index("In box 0.")
    third = stock.responses.create(
        model=MODEL, input="And then?", tools=TOOLS, previous_response_id=second.id
    )
    check(third, calls)
    roles = [message.role for message in generation.requests[-1].messages]
    assert roles == ["user", "assistant", *["tool"] * calls, "assistant", "user"]


@pytest.mark.usefixtures("calls")
def test_what_has_to_be_called(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    def grammar(tools: Any = TOOLS, **more: Any) -> str:
        stock.responses.create(model=MODEL, input=ASK, tools=tools, **more)
        return generation.requests[-1].sampling.grammar

    assert grammar() == grammar(tool_choice="auto") == grammar(tool_choice="none") == ""
    assert grammar([SEARCH], tool_choice="required") == ""
    assert grammar([SEARCH, *TOOLS], tool_choice={"type": "file_search"}) == ""
    assert "find_key" in grammar(tool_choice="required")
    several = '"\\n" call'
    assert several in grammar(tool_choice="required") or not generation.script.startswith("Let")
    assert several not in grammar(tool_choice="required", parallel_tool_calls=False)
    assert "find_key" not in grammar(tool_choice={"type": "function", "name": "now"})


@pytest.mark.usefixtures("calls")
def test_a_text_without_tools_is_a_text(stock: openai.OpenAI) -> None:
    for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        reply = stock.responses.create(model=MODEL, input=ASK, **more)
        assert "find_key" in reply.output_text
        assert called(reply) == called(stock.responses.retrieve(reply.id)) == []


class Place(BaseModel):
    """Where it is."""

    room: str


@pytest.mark.parametrize("calls", [("qwen", '{"room": "attic"}', 0)], indirect=True)
@pytest.mark.usefixtures("calls")
def test_a_format(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    reply = stock.responses.parse(model=MODEL, input=ASK, text_format=Place)
    assert reply.output_parsed == Place(room="attic")
    assert "room" in generation.requests[-1].sampling.grammar
    assert reply.text.format.name == "Place"
    with stock.responses.stream(model=MODEL, input=ASK, text_format=Place) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == Place(room="attic")
    stock.responses.create(model=MODEL, input=ASK, text={"format": {"type": "json_object"}})
    assert generation.requests[-1].sampling.grammar
    stock.responses.create(model=MODEL, input=ASK, text={"format": {"type": "text"}})
    assert generation.requests[-1].sampling.grammar == ""
    wrong = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nothing"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        stock.responses.create(model=MODEL, input=ASK, text=wrong)
    assert refused.value.param == "text.format"
