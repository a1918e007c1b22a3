"""The bytes of a stream, as OpenAI sends them.

Covers `app.api.openai.delivery`.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.app.conftest import HEADERS, hanging_up, wait_until
from tests.fakes import FakeGeneration

ASK = {"model": "dragon-7m", "messages": [{"role": "user", "content": "?"}], "stream": True}
CONTINUE = {"model": "dragon-7m", "prompt": "The key", "stream": True}


def data_of(reply: httpx.Response) -> list[str]:
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-store"
    *events, rest = reply.text.split("\n\n")
    assert rest == ""
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [event.removeprefix("data: ") for event in events]


async def test_a_chat_stream(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    *data, done = data_of(await client.post("/v1/chat/completions", json=ASK))
    assert done == "[DONE]"
    chunks = [json.loads(d) for d in data]
    assert len({(c["id"], c["created"]) for c in chunks}) == 1
    assert chunks[0].keys() == {
        "id", "object", "created", "model", "system_fingerprint", "choices",
    }  # fmt: skip
    assert chunks[0]["id"].startswith("chatcmpl-")
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert [c["choices"][0]["delta"] for c in (chunks[0], chunks[-1])] == [
        {"role": "assistant", "content": ""},
        {},
    ]
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == generation.script


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", ASK), ("/v1/completions", CONTINUE)]
)
async def test_usage_comes_once_and_only_when_asked_for(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    asked = body | {"stream_options": {"include_usage": True}}
    *data, done = data_of(await client.post(path, json=asked))
    chunks = [json.loads(d) for d in data]
    assert done == "[DONE]"
    assert all(c["usage"] is None for c in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] > 0
    for options in ({"include_usage": False}, None):
        plain = data_of(await client.post(path, json=body | {"stream_options": options}))
        assert not any("usage" in json.loads(d) for d in plain[:-1])


async def test_a_completion_stream(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    *data, done = data_of(await client.post("/v1/completions", json=CONTINUE))
    chunks = [json.loads(d) for d in data]
    assert done == "[DONE]"
    assert {c["object"] for c in chunks} == {"text_completion"}
    assert "".join(c["choices"][0]["text"] for c in chunks) == generation.script
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0] == {
        "index": 0, "text": ".", "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    asked = CONTINUE | {"dragon": {"provenance": True}}
    *data, _ = data_of(await client.post("/v1/completions", json=asked))
    last = json.loads(data[-1])["choices"][0]
    assert (last["text"], last["finish_reason"]) == ("", "stop")


@pytest.mark.parametrize("failing_after", [0, 2])
async def test_an_error_in_mid_stream_ends_it_without_success(
    client: httpx.AsyncClient, generation: FakeGeneration, failing_after: int
) -> None:
    generation.fail_after = failing_after
    asked = ASK | {"n": 3, "stream_options": {"include_usage": True}}
    data = data_of(await client.post("/v1/chat/completions", json=asked))
    assert json.loads(data[-1])["error"]["code"] == "internal_error"
    assert "secret" not in data[-1]
    assert "[DONE]" not in data
    for chunk in map(json.loads, data[:-1]):
        assert chunk["choices"][0]["finish_reason"] is None
    assert generation.active == 0


def test_comments_keep_a_stream_alive_during_the_prefill(
    address: str, generation: FakeGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.openai.delivery.KEEP_ALIVE_S", 0.01)
    generation.prefilling.set()
    lines: list[str] = []
    with httpx.stream(
        "POST", f"http://{address}/v1/chat/completions", json=ASK, headers=HEADERS, timeout=60
    ) as reply:
        assert reply.status_code == 200
        for line in reply.iter_lines():
            lines.append(line)
            if line.startswith(":"):
                generation.prefilling.clear()
    assert sum(line.startswith(": ") for line in lines) >= 1
    data = [line.removeprefix("data: ") for line in lines if line and not line.startswith(":")]
    assert json.loads(data[0])["choices"][0]["delta"]["role"] == "assistant"
    contents = [json.loads(d)["choices"][0]["delta"].get("content", "") for d in data[:-1]]
    assert "".join(contents) == generation.script
    assert data[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_frees_everything(
    address: str, generation: FakeGeneration, stream: bool
) -> None:
    generation.silence = 30.0
    with hanging_up(address, "/v1/chat/completions", ASK | {"n": 6, "stream": stream}):
        wait_until(lambda: generation.active == 4)
    wait_until(lambda: generation.active == 0)
    assert generation.cancelled == len(generation.requests) == 4  # the other two never began
