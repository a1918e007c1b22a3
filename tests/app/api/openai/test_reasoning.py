"""What a model thinks before it answers: beside the text, in every shape, and switched off."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dragon.inference.tokenizer import Tokenizer
from tests.app.api.test_bad_input import ASK, CHAT
from tests.fakes import FakeGeneration

THOUGHT, SAID = "A key.\n\nOr two?", "It hangs in the shed."
TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)


@pytest.fixture
def thinking(generation: FakeGeneration) -> FakeGeneration:
    """A model that thinks, unless it is told not to."""
    backend = generation.tokenizer._backend
    copied = type(backend)(tokenizer_object=backend.backend_tokenizer, eos_token="<|end|>")
    copied.chat_template = TEMPLATE
    generation.tokenizer = Tokenizer(copied)
    generation.script = f"<think>\n{THOUGHT}\n</think>\n\n{SAID}"
    return generation


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def test_in_a_chat(client: httpx.AsyncClient, thinking: FakeGeneration) -> None:
    message = (await client.post(CHAT, json=ASK)).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, SAID)
    chunks = events((await client.post(CHAT, json=ASK | {"stream": True})).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == THOUGHT
    assert "".join(delta.get("content", "") for delta in deltas) == SAID


async def test_for_ollama(client: httpx.AsyncClient, thinking: FakeGeneration) -> None:
    asked = {"model": "dragon-7m", "messages": ASK["messages"]}
    whole = (await client.post("/api/chat", json=asked | {"stream": False})).json()["message"]
    assert (whole["thinking"], whole["content"]) == (THOUGHT, SAID)
    text = (await client.post("/api/chat", json=asked)).text
    lines = [json.loads(line)["message"] for line in text.splitlines()]
    assert "".join(line.get("thinking", "") for line in lines) == THOUGHT
    assert "".join(line["content"] for line in lines) == SAID


async def test_in_a_response(client: httpx.AsyncClient, thinking: FakeGeneration) -> None:
    asked = {"input": "Where is the key?", "store": False}
    output = (await client.post("/v1/responses", json=asked)).json()["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert output[0]["content"] == [{"type": "reasoning_text", "text": THOUGHT}]
    assert output[1]["content"][0]["text"] == SAID
    told = events((await client.post("/v1/responses", json=asked | {"stream": True})).text)
    deltas = [e["delta"] for e in told if e["type"] == "response.reasoning_text.delta"]
    assert "".join(deltas) == THOUGHT
    done = [e["item"]["type"] for e in told if e["type"] == "response.output_item.done"]
    assert done == ["reasoning", "message"]
    assert [e["output_index"] for e in told if "item" in e] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "off",
    [
        {"reasoning_effort": "none"},
        {"enable_thinking": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
async def test_it_is_switched_off(
    client: httpx.AsyncClient, thinking: FakeGeneration, off: dict[str, Any]
) -> None:
    reply = await client.post(CHAT, json=ASK | off)
    assert reply.status_code == 200
    prompt = thinking.tokenizer.decode(thinking.requests[0].conversation, special=True)
    assert prompt.endswith("<think>\n\n</think>\n\n")
    asked = {"model": "dragon-7m", "messages": ASK["messages"], "think": False}
    await client.post("/api/chat", json=asked)
    await client.post(
        "/v1/responses", json={"input": "Hm?", "store": False, "reasoning": {"effort": "none"}}
    )
    for request in thinking.requests[1:]:
        prompt = thinking.tokenizer.decode(request.conversation, special=True)
        assert prompt.endswith("<think>\n\n</think>\n\n")


async def test_thoughts_that_the_prompt_has_begun(
    client: httpx.AsyncClient, thinking: FakeGeneration
) -> None:
    thinking.tokenizer._template._template = TEMPLATE.replace(
        "<|assistant|>", "<|assistant|><think>\n"
    )
    thinking.script = f"{THOUGHT}\n</think>\n\n{SAID}"
    message = (await client.post(CHAT, json=ASK)).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, SAID)


async def test_without_such_a_template_it_is_text(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    generation.script = "<think>x</think>y"
    message = (await client.post(CHAT, json=ASK)).json()["choices"][0]["message"]
    assert message["content"] == generation.script
    assert "reasoning_content" not in message
