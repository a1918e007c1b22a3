"""Anthropic's Messages API: what its clients send, the replies and streams that they read.

Covers `app.api.anthropic.bodies`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api.openai import delivery
from dragon.errors import OverloadedError
from tests.app.api.openai.test_reasoning import SAID, THOUGHT, thinking
from tests.app.api.openai.test_tools import ARGUMENTS, PARAMETERS, calls
from tests.app.conftest import KEY, in_process
from tests.fakes import FakeGeneration

__all__ = ["calls", "thinking"]  # fixtures

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
TEXT = "The key is under the mat."
USER = {"role": "user", "content": "Where is the key?"}
ASK: dict[str, Any] = {"model": "dragon-7m", "max_tokens": 100, "messages": [USER]}
TOOLS = [
    {"name": "find_key", "input_schema": PARAMETERS, "cache_control": {"type": "ephemeral"}},
    {"name": "now", "type": "custom", "input_schema": {"type": "object"}},
]


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """With the headers of Anthropic's clients."""
    async with in_process(app, {"x-api-key": KEY, "anthropic-version": "2023-06-01"}) as client:
        yield client


async def asked(client: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    reply = await client.post(PATH, json=ASK | more)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def streamed(client: httpx.AsyncClient, **more: Any) -> list[dict[str, Any]]:
    """The events of a stream, each named alike outside and within."""
    reply = await client.post(PATH, json=ASK | {"stream": True} | more)
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = []
    for event in reply.text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def assembled(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream adds up to; what stands in the wrong place fails."""
    start, *pieces, end, stop = events
    assert (start["type"], end["type"], stop["type"]) == (
        "message_start", "message_delta", "message_stop",
    )  # fmt: skip
    message = deepcopy(start["message"])
    blocks: list[dict[str, Any]] = message["content"]
    kinds = [piece["type"].removeprefix("content_block_") for piece in pieces]
    assert kinds[-1] == "stop"
    assert kinds.count("start") == kinds.count("stop")
    for kind, piece in zip(kinds, pieces, strict=True):
        if kind == "start":
            blocks.append(dict(piece["content_block"]))
        assert piece["index"] == len(blocks) - 1
        if kind == "delta":
            delta = dict(piece["delta"])
            name = delta.pop("type").removesuffix("_delta")
            ((field, text),) = delta.items()
            if name == "input_json":  # whole
                blocks[-1]["input"] = json.loads(text)
            else:
                assert field == name == blocks[-1]["type"]
                blocks[-1][field] += text
    message |= end["delta"]
    message["usage"] |= end["usage"]
    return message


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two messages say the same; each has ids of its own."""

    def without(message: dict[str, Any]) -> dict[str, Any]:
        blocks = [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
        return {**message, "id": "", "content": blocks}

    return without(one) == without(other)


async def test_a_message(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    message = await asked(client, system="Be brief.", temperature=0.5, top_p=0.9, top_k=7)
    assert message["id"].startswith("msg_")
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert message["model"] == "dragon-7m"
    assert message["content"] == [{"type": "text", "text": TEXT}]
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"]["output_tokens"] == 7
    assert message["usage"]["input_tokens"] > 0
    assert "dragon" not in message
    (request,) = generation.requests
    assert request.max_tokens == 100
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 7)
    assert [(turn.role, turn.content) for turn in request.messages] == [
        ("system", "Be brief."), ("user", "Where is the key?"),
    ]  # fmt: skip


async def test_a_stream_adds_up_to_the_message(client: httpx.AsyncClient) -> None:
    events = await streamed(client)
    assert same(assembled(events), await asked(client))
    assert events[0]["message"]["stop_reason"] is None
    texts = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
    assert len(texts) > 1


@pytest.mark.parametrize(
    ("more", "text", "reason", "sequence"),
    [
        ({"max_tokens": 2}, "The key", "max_tokens", None),
        ({"stop_sequences": ["mat", " under"]}, "The key is", "stop_sequence", " under"),
        ({"stop_sequences": ["The"]}, "", "stop_sequence", "The"),
    ],
)
async def test_why_it_ends(
    client: httpx.AsyncClient, more: dict[str, Any], text: str, reason: str, sequence: str | None
) -> None:
    message = await asked(client, **more)
    assert message["content"] == [{"type": "text", "text": text}]
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert same(assembled(await streamed(client, **more)), message)


async def test_blocks_say_what_strings_say(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    def block(text: str) -> dict[str, Any]:
        return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}

    turns = [USER, {"role": "assistant", "content": "In the hall."}, {**USER, "content": "A\nB"}]
    await asked(client, system="Be brief.\nBe kind.", messages=turns)
    turns = [{**turn, "content": list(map(block, turn["content"].split("\n")))} for turn in turns]
    reply = await client.post(
        PATH, json=ASK | {"system": [block("Be brief."), block("Be kind.")], "messages": turns}
    )
    assert "x-dragon-ignored" not in reply.headers
    one, other = generation.requests
    assert one.messages == other.messages
    assert one.messages[-1].content == "A\nB"


async def test_a_limit_of_a_larger_model_is_no_mistake(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    await asked(client, max_tokens=32_000)
    assert generation.requests[0].max_tokens is None
    long = {**USER, "content": "word " * 1000}
    reply = await client.post(PATH, json=ASK | {"max_tokens": 32_000, "messages": [long]})
    assert reply.status_code == 400


async def test_thoughts(client: httpx.AsyncClient, thinking: FakeGeneration) -> None:
    message = await asked(client, thinking={"type": "enabled", "budget_tokens": 1024})
    thought = {"type": "thinking", "thinking": THOUGHT, "signature": ""}
    assert message["content"] == [thought, {"type": "text", "text": SAID}]
    assert same(assembled(await streamed(client, thinking={"type": "adaptive"})), message)
    last = {"role": "assistant", "content": [*message["content"], {
        "type": "redacted_thinking", "data": "abc",
    }]}  # fmt: skip
    await asked(client, messages=[USER, last, USER], thinking={"type": "enabled"})
    turn = thinking.requests[-1].messages[1]
    assert (turn.reasoning, turn.content) == (THOUGHT, SAID)


@pytest.mark.parametrize(
    ("more", "off"),
    [
        ({}, True),
        ({"thinking": {"type": "disabled"}}, True),
        ({"thinking": {"type": "adaptive"}}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, False),
    ],
)
async def test_it_thinks_if_it_is_asked_to(
    client: httpx.AsyncClient, thinking: FakeGeneration, more: dict[str, Any], off: bool
) -> None:
    await asked(client, **more)
    prompt = thinking.tokenizer.decode(thinking.requests[-1].conversation, special=True)
    assert prompt.rstrip().endswith("</think>") is off


async def test_tools(client: httpx.AsyncClient, generation: FakeGeneration, calls: int) -> None:
    message = await asked(client, tools=TOOLS)
    called = [block for block in message["content"] if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in called] == [
        ("find_key", ARGUMENTS)
    ] * calls
    text = [block["text"] for block in message["content"] if block["type"] == "text"]
    assert text == (["Let me look."] if calls == 2 else [])
    assert (message["stop_reason"], message["stop_sequence"]) == ("tool_use", None)
    assert same(assembled(await streamed(client, tools=TOOLS)), message)

    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "In a box."}
        for block in called
    ]
    results[0] |= {"content": [{"type": "text", "text": "In a red box."}], "is_error": False}
    history = [
        USER,
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Which one?"}]},
    ]
    await asked(client, tools=TOOLS, messages=history)
    request = generation.requests[-1]
    roles = [turn.role for turn in request.messages]
    assert roles == ["user", "assistant", *["tool"] * calls, "user"]
    assert request.messages[2].content == "In a red box."
    assert request.messages[2].answers == request.messages[1].calls[0].id == called[0]["id"]
    assert request.query == "Which one?"
    await asked(client, tools=TOOLS, messages=[*history[:2], {**USER, "content": results}])
    assert generation.requests[-1].query == "Where is the key?"


@pytest.mark.usefixtures("calls")
async def test_what_has_to_call_is_held_to_calls(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    async def grammar(**choice: Any) -> str:
        await asked(client, tools=TOOLS, tool_choice=choice)
        return generation.requests[-1].sampling.grammar

    assert await grammar(type="auto") == ""
    assert await grammar(type="any") != ""
    assert "find_key" not in await grammar(type="tool", name="now")
    await grammar(type="none")
    prompt = generation.tokenizer.decode(generation.requests[-1].conversation, special=True)
    assert "find_key" not in prompt


@pytest.mark.parametrize("calls", [("qwen", TEXT, 0)], indirect=True)
@pytest.mark.usefixtures("calls")
async def test_formats(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    form = {"type": "json_schema", "schema": PARAMETERS}
    await asked(client, output_config={"format": form, "effort": "max"})
    assert "room" in generation.requests[-1].sampling.grammar


async def test_tokens_are_counted_as_they_are_used(client: httpx.AsyncClient) -> None:
    body = {name: value for name, value in ASK.items() if name != "max_tokens"}
    for more in ({}, {"system": "Be brief."}, {"messages": [USER, USER | {"role": "assistant"}]}):
        reply = await client.post(COUNT, json=body | more)
        usage = (await asked(client, **more))["usage"]
        assert reply.json() == {"input_tokens": usage["input_tokens"]}
    long = {**USER, "content": "word " * 1000}  # longer than the context
    reply = await client.post(COUNT, json=body | {"messages": [long]})
    assert reply.json()["input_tokens"] > 1000


@pytest.mark.usefixtures("calls")
async def test_tools_are_counted(client: httpx.AsyncClient) -> None:
    counts = [
        (await client.post(COUNT, json=ASK | {"tools": tools})).json()["input_tokens"]
        for tools in ([], TOOLS)
    ]
    assert counts[1] == (await asked(client, tools=TOOLS))["usage"]["input_tokens"] > counts[0]


async def test_where_it_comes_from_if_that_is_asked_for(client: httpx.AsyncClient) -> None:
    dragon = {"private": True}
    whole = (await asked(client, dragon=dragon))["dragon"]
    assert whole["choices"][0]["sources"][0]["title"] == "note.txt"
    (end,) = [e for e in await streamed(client, dragon=dragon) if e["type"] == "message_delta"]
    assert end["dragon"].keys() == whole.keys()


async def test_what_is_unknown_is_taken_and_named(client: httpx.AsyncClient) -> None:
    known = {"metadata": {"user_id": "anna"}, "service_tier": "auto", "mcp_servers": []}
    reply = await client.post(f"{PATH}?beta=true", json=ASK | known | {"context_management": {}})
    assert reply.status_code == 200
    assert reply.headers["x-dragon-ignored"] == "context_management"


async def test_answers_are_shared_out_by_the_callers_own_users(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers: list[str] = []

    class Noted:
        def get(self) -> str:
            return "key"

        def set(self, caller: str) -> None:
            callers.append(caller)

    monkeypatch.setattr("app.api.openai.delivery.CALLER", Noted())
    await asked(client)
    for user in ("anna", "bela"):
        await asked(client, metadata={"user_id": user})
    assert callers == ["key anna", "key bela"]


@pytest.mark.parametrize(
    ("more", "status", "kind", "names"),
    [
        ({"messages": []}, 400, "invalid_request_error", "messages"),
        ({"max_tokens": 0}, 400, "invalid_request_error", "max_tokens"),
        ({"model": "claude"}, 404, "not_found_error", "claude"),
        ({"mcp_servers": [{"url": "a"}]}, 400, "invalid_request_error", "mcp_servers"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, 400, "invalid_request_error",
         "tools[0].type"),
        ({"tools": TOOLS}, 400, "invalid_request_error", "tools"),
        ({"tool_choice": {"type": "tool"}}, 400, "invalid_request_error", "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, 400,
         "invalid_request_error", "the type 'image' is not supported"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "a",
          "input": {}}]}]}, 400, "invalid_request_error", "messages[0].content"),
        ({"messages": [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a",
          "name": "a", "input": {}}]}]}, 400, "invalid_request_error", "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}] *
          3000}]}, 400, "invalid_request_error", "messages"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, 400, "invalid_request_error",
         "surrogate"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [PATH, COUNT])
async def test_what_cannot_be_done(
    client: httpx.AsyncClient, path: str, more: dict[str, Any], status: int, kind: str, names: str
) -> None:
    headers = {"content-type": "application/json"}
    reply = await client.post(path, content=json.dumps(ASK | more), headers=headers)
    assert reply.status_code == status
    assert error_of(reply)["type"] == kind
    assert names in error_of(reply)["message"]


def error_of(reply: httpx.Response) -> dict[str, Any]:
    body = reply.json()
    assert body.keys() == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    found: dict[str, Any] = body["error"]
    return found


async def test_errors_from_before_the_route_have_the_shape_too(client: httpx.AsyncClient) -> None:
    wrong = await client.post(PATH, json=ASK, headers={"x-api-key": "wrong"})
    assert (wrong.status_code, error_of(wrong)["type"]) == (401, "authentication_error")
    large = await client.post(PATH, json=ASK | {"system": "a" * (5 << 20)})
    assert (large.status_code, error_of(large)["type"]) == (413, "request_too_large")
    packed = await client.post(PATH, content=b"a", headers={"content-encoding": "br"})
    assert (packed.status_code, error_of(packed)["type"]) == (415, "invalid_request_error")
    assert error_of(await client.get(f"{PATH}/batches"))["type"] == "not_found_error"
    assert (await client.post("/v1/responses", json={})).json().keys() == {"error"}


async def test_failures_before_and_in_a_stream(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    generation.refuse = OverloadedError("too many")
    reply = await client.post(PATH, json=ASK | {"stream": True})
    assert (reply.status_code, error_of(reply)["type"]) == (503, "overloaded_error")
    generation.refuse, generation.fail_after = None, 3
    *_, last = await streamed(client)
    assert last["type"] == "error"
    assert last["error"]["type"] == "api_error"
    assert "secret" not in last["error"]["message"]
    generation.fail_after = 0
    reply = await client.post(PATH, json=ASK)
    assert (reply.status_code, error_of(reply)["type"]) == (500, "api_error")


async def test_a_silent_stream_is_kept_alive(
    client: httpx.AsyncClient, generation: FakeGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "KEEP_ALIVE_S", 0.05)
    generation.delay = 0.2
    text = (await client.post(PATH, json=ASK | {"stream": True, "max_tokens": 2})).text
    assert 'event: ping\ndata: {"type":"ping"}\n\n' in text
