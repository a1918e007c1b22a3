"""Tools as the stock client sends them, and calls as it reads them, of models of either form.

Covers `app.api.openai.parameters` and `app.api.openai.turns`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import httpx
import openai
import pytest
from transformers import AutoTokenizer

from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL
from tests.app.api.test_bad_input import CHAT, JSON, refused
from tests.fakes import FakeGeneration
from tests.templates import WITH_TOOLS

MODEL = "dragon-7m"
ASK = [{"role": "user", "content": "Where is the key?"}]
PARAMETERS = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "find_key", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now"}},
]
HERMES = '<tool_call>\n{"name": "find_key", "arguments": {"room": "attic"}}\n</tool_call>'
LLAMA = '{"name": "find_key", "parameters": {"room": "attic"}}'
ARGUMENTS = {"room": "attic"}
CALL = {"id": "1", "function": {"name": "find_key", "arguments": "{}"}}
HALF = {"room": "\ud800"}  # of a surrogate pair
HALF_A_CALL = {"id": "1", "function": {"name": "find_key", "arguments": json.dumps(HALF)}}


@cache
def told(name: str) -> Tokenizer:
    """The embedded model's tokenizer with a template that has tools."""
    backend = AutoTokenizer.from_pretrained(SMALL_MODEL)
    backend.chat_template, backend.bos_token = WITH_TOOLS[name], "<|doc|>"
    return Tokenizer(backend)


@pytest.fixture(params=[("qwen", f"Let me look.\n{HERMES}\n{HERMES}", 2), ("llama", LLAMA, 1)])
def calls(request: pytest.FixtureRequest, generation: FakeGeneration) -> int:
    """A model that writes, and how many calls it makes whatever it is asked."""
    name, generation.script, count = request.param
    generation.tokenizer, generation.quotes_alone = told(name), False
    generation.context_length = 2048
    return count


def check(choice: Any, calls: int) -> None:
    assert choice.finish_reason == "tool_calls"
    assert (choice.message.content or None) == ("Let me look." if calls == 2 else None)
    found = choice.message.tool_calls
    assert [(call.type, call.function.name) for call in found] == [("function", "find_key")] * calls
    assert [json.loads(call.function.arguments) for call in found] == [ARGUMENTS] * calls
    assert len({call.id for call in found}) == calls


def test_calls_are_read_out_of_what_the_model_writes(stock: openai.OpenAI, calls: int) -> None:
    reply = stock.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, n=2)
    for choice in reply.choices:
        check(choice, calls)


def test_streamed_calls_add_up_to_the_whole_ones(stock: openai.OpenAI, calls: int) -> None:
    with stock.chat.completions.stream(model=MODEL, messages=ASK, tools=TOOLS) as stream:
        stream.until_done()
        check(stream.get_final_completion().choices[0], calls)


@pytest.mark.usefixtures("calls")
def test_what_the_model_is_told(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    def prompt(**more: Any) -> str:
        body = {"model": MODEL, "messages": ASK, "tools": TOOLS, **more}
        stock.chat.completions.create(**body)
        return generation.tokenizer.decode(generation.requests[-1].conversation, special=True)

    assert '"name": "find_key"' in prompt()
    assert "find_key" not in prompt(tool_choice="none")
    called = {"id": "call_1", "type": "function"}
    call = called | {"function": {"name": "find_key", "arguments": json.dumps(ARGUMENTS)}}
    history = [
        *ASK,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "It is in a red box."},
    ]
    asked = prompt(messages=history)
    assert asked.index('{"room": "attic"}') < asked.index("It is in a red box.")
    assert "red box" in prompt(messages=history, tool_choice="none")
    assert generation.requests[-1].query == "Where is the key?"


@pytest.mark.usefixtures("calls")
def test_what_has_to_call_is_held_to_calls(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    def grammar(**more: Any) -> str:
        stock.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, **more)
        return generation.requests[-1].sampling.grammar

    assert grammar() == grammar(tool_choice="auto") == ""
    assert '"find_key' in grammar(tool_choice="required").replace("\\", "")
    named: Any = {"type": "function", "function": {"name": "now"}}
    assert "find_key" not in grammar(tool_choice=named)


def test_a_model_without_tools_says_so(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    history: list[Any] = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}]
    for messages, more, param in (
        (ASK, {"tools": TOOLS}, "tools"),
        (ASK, {"tools": TOOLS, "tool_choice": "required"}, "tools"),
        (history, {}, "messages"),
    ):
        with pytest.raises(openai.BadRequestError, match="chat template has no tools") as refused:
            stock.chat.completions.create(model=MODEL, messages=messages, **more)
        assert refused.value.param == param
    stock.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS, tool_choice="none")
    assert len(generation.requests) == 1


@pytest.mark.parametrize("calls", [("llama", LLAMA, 1)], indirect=True)
@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [*ASK, {"role": "assistant", "content": None}]}, "messages[1].content"),
        ({"messages": [{**ASK[0], "tool_call_id": "1"}]}, "messages[0].tool_call_id"),
        ({"messages": [{**ASK[0], "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
        (
            {"messages": [*ASK, {"role": "assistant", "tool_calls": [HALF_A_CALL]}]},
            "messages[1].tool_calls[0].function.arguments",
        ),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ],
)
async def test_what_cannot_be_called_is_refused_by_name(
    client: httpx.AsyncClient, generation: FakeGeneration, more: dict[str, Any], param: str
) -> None:
    body = {"model": MODEL, "messages": ASK, "tools": TOOLS, **more}
    assert (await refused(client, CHAT, body))["param"] == param
    assert generation.requests == []


@pytest.mark.parametrize(
    ("path", "more", "named"),
    [
        (
            CHAT,
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": HALF}}]},
            "tools[0].function.parameters",
        ),
        ("/api/chat", {"format": HALF}, "format"),
    ],
)
async def test_a_schema_is_text(
    client: httpx.AsyncClient, path: str, more: dict[str, Any], named: str
) -> None:
    body = json.dumps({"model": MODEL, "messages": ASK, **more})  # which spells what is no text
    reply = await client.post(path, content=body, headers=JSON)
    assert reply.status_code == 400
    assert named in reply.text
