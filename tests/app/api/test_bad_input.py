"""Every kind of bad input is a clear 4xx in OpenAI's error shape, and harms nobody else.

Covers `app.api.errors`, `app.api.openai.schemas` and `dragon.errors`.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.api.openai.schemas import MAX_TEXT
from app.main import MAX_BODY_BYTES
from dragon.errors import LinkError, OverloadedError
from tests.app.conftest import HEADERS
from tests.fakes import FakeGeneration

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
EMBED, RANK = "/v1/embeddings", "/v1/rerank"
ASK = {"model": "dragon-7m", "messages": [{"role": "user", "content": "Where is the key?"}]}
CONTINUE = {"model": "dragon-7m", "prompt": "The key"}
NESTED = b"[" * 100_000
JSON = {"content-type": "application/json"}


def error_of(reply: httpx.Response) -> dict[str, Any]:
    body = reply.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert "x-request-id" in reply.headers
    return body["error"]


async def refused(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The error of a request that is refused; half a surrogate pair travels escaped."""
    reply = await client.post(path, content=json.dumps(body), headers=JSON)
    assert reply.status_code == 400, reply.text
    error = error_of(reply)
    assert error["type"] == "invalid_request_error"
    return error


async def test_malformed_bodies(client: httpx.AsyncClient) -> None:
    for content in (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"NaN", NESTED, b"1" * 5000):
        for path in (CHAT, TEXT):
            reply = await client.post(path, content=content, headers=JSON)
            assert reply.status_code == 400, content[:9]
            error_of(reply)


async def test_a_body_that_is_not_said_to_be_json(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "text/plain"}
    reply = await client.post(CHAT, content=json.dumps(ASK), headers=headers)
    assert reply.status_code == 400
    error = error_of(reply)
    assert "application/json" in error["message"]
    assert error["code"] == "unsupported_content_type"


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"model": 7}, "model", "invalid_value"),
        ({"model": "\ud800"}, "model", "invalid_value"),
        ({"stop": "\ud800"}, "stop[0]", "invalid_value"),
        ({"temperature": "0.5"}, "temperature", "invalid_value"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"top_p": 1.5}, "top_p", "invalid_value"),
        ({"seed": 1 << 64}, "seed", "invalid_value"),
        ({"max_tokens": -3}, "max_tokens", "invalid_value"),
        ({"n": 33}, "n", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
        ({"stop": [""]}, "stop[0]", "invalid_value"),
        ({"dragon": []}, "dragon", "invalid_value"),
        ({"dragon": {"aggregation": "majority"}}, "dragon.aggregation", "invalid_value"),
        ({"dragon": {"colour": "red"}}, "dragon.colour", "unknown_parameter"),
        ({"presence_penalty": 2.1}, "presence_penalty", "invalid_value"),
        ({"frequency_penalty": -3}, "frequency_penalty", "invalid_value"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5", "invalid_value"),
        ({"logit_bias": {"999999": 1}}, "logit_bias", "invalid_request"),
        ({"top_k": -2}, "top_k", "invalid_value"),
        ({"min_p": 1.1}, "min_p", "invalid_value"),
        ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens", "invalid_request"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "invalid_value"),
    ],
)
async def test_bad_values_of_both(
    client: httpx.AsyncClient, change: dict[str, Any], param: str, code: str
) -> None:
    for path, good in ((CHAT, ASK), (TEXT, CONTINUE)):
        error = await refused(client, path, good | change)
        assert (error["param"], error["code"]) == (param, code)
        assert param in error["message"]


IMAGE = {"type": "image_url", "image_url": {}}


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages", "invalid_request"),
        (user("  "), "messages", "invalid_request"),
        (user(None), "messages[0].content", "invalid_value"),
        (user([IMAGE]), "messages[0].content", "unsupported_parameter"),
        (user([{"type": "text"}]), "messages[0].content", "invalid_value"),
        (user("\ud800"), "messages[0].content", "invalid_value"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_request"),
        ({"tool_choice": "some"}, "tool_choice", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"modalities": ["audio"]}, "modalities", "unsupported_parameter"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens", "invalid_value"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
    ],
)
async def test_bad_values_of_chat(
    client: httpx.AsyncClient, change: dict[str, Any], param: str, code: str
) -> None:
    error = await refused(client, CHAT, ASK | change)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"prompt": ""}, "prompt", "invalid_request"),
        ({"prompt": []}, "prompt", "invalid_value"),
        ({"prompt": [[]]}, "prompt", "invalid_value"),
        ({"prompt": ["a", 1]}, "prompt", "invalid_value"),
        ({"prompt": [True]}, "prompt", "invalid_value"),
        ({"prompt": [-1]}, "prompt", "invalid_value"),
        ({"prompt": [10**9]}, "prompt", "invalid_request"),
        ({"prompt": [10**30]}, "prompt", "invalid_request"),
        ({"prompt": ["\ud800"]}, "prompt", "invalid_value"),
        ({"prompt": ["a"] * 33}, "prompt", "invalid_value"),
        ({"prompt": ["a"] * 17, "n": 2}, "n", "invalid_request"),
        ({"suffix": "x"}, "suffix", "unsupported_parameter"),
        ({"suffix": "x", "echo": True}, "suffix", "invalid_value"),
        ({"suffix": "x", "truncate_prompt_tokens": 5}, "suffix", "invalid_value"),
        ({"suffix": "x" * 5000}, "suffix", "context_length_exceeded"),
        ({"best_of": 33}, "best_of", "invalid_value"),
        ({"best_of": 2, "n": 3}, "best_of", "invalid_value"),
        ({"best_of": 2, "stream": True}, "best_of", "invalid_value"),
        ({"max_tokens": 0}, "echo", "invalid_value"),
        ({"logprobs": 21}, "logprobs", "invalid_value"),
    ],
)
async def test_bad_values_of_completions(
    client: httpx.AsyncClient, change: dict[str, Any], param: str, code: str
) -> None:
    error = await refused(client, TEXT, CONTINUE | change)
    assert (error["param"], error["code"]) == (param, code)


LONG = "a" * 3_000_000
HALF = {"role": "user", "content": "a" * (MAX_TEXT // 2 + 1)}
RERANK = {"query": "?", "documents": ["x"]}


@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        ("/tokenize", {}, "prompt", "invalid_request"),
        ("/tokenize", {"prompt": "a", "messages": [HALF]}, "prompt", "invalid_request"),
        ("/tokenize", {"prompt": ["a"]}, "prompt", "invalid_value"),
        ("/tokenize", {"messages": []}, "messages", "invalid_value"),
        ("/tokenize", {"prompt": "a", "model": "gpt-5"}, "model", "model_not_found"),
        ("/tokenize", {"prompt": "a" * (MAX_TEXT + 1)}, "prompt", "invalid_value"),
        ("/tokenize", {"messages": [HALF, HALF]}, "messages", "invalid_request"),
        ("/detokenize", {}, "tokens", "missing_required_parameter"),
        ("/detokenize", {"tokens": "a"}, "tokens", "invalid_value"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]", "invalid_value"),
        ("/detokenize", {"tokens": [1, 8192]}, "tokens", "invalid_request"),
        ("/detokenize", {"tokens": [10**30]}, "tokens", "invalid_request"),
        ("/detokenize", {"tokens": [1], "model": "gpt-5"}, "model", "model_not_found"),
        ("/detokenize", {"tokens": [1] * (MAX_TEXT + 1)}, "tokens", "invalid_value"),
        (TEXT, {"prompt": LONG}, "prompt", "context_length_exceeded"),
        (EMBED, {"input": LONG}, "input", "context_length_exceeded"),
        (EMBED, {"input": ""}, "input", "invalid_request"),
        (EMBED, {"input": ["a", ""]}, "input", "invalid_request"),
        (EMBED, {"input": []}, "input", "invalid_value"),
        (EMBED, {"input": [[]]}, "input", "invalid_value"),
        (EMBED, {"input": ["a", [1]]}, "input", "invalid_value"),
        (EMBED, {"input": [-1]}, "input", "invalid_value"),
        (EMBED, {"input": [10**30]}, "input", "invalid_request"),
        (EMBED, {"input": ["a"] * 2049}, "input", "invalid_value"),
        (EMBED, {"input": None}, "input", "invalid_value"),
        (EMBED, {"input": "a", "dimensions": 64}, "dimensions", "unsupported_parameter"),
        (EMBED, {"input": "a", "encoding_format": "int8"}, "encoding_format", "invalid_value"),
        (EMBED, {"input": "a", "model": "dragon-7m"}, "model", "model_not_found"),
        (RANK, RERANK | {"model": "dragon-7m"}, "model", "model_not_found"),
        (RANK, RERANK | {"documents": []}, "documents", "invalid_value"),
        (RANK, RERANK | {"documents": [{"title": "x"}]}, "documents[0]", "invalid_value"),
        (RANK, RERANK | {"documents": ["x" * 50_001]}, "documents[0]", "invalid_value"),
        (RANK, RERANK | {"documents": ["x" * 40_000] * 13}, "documents", "invalid_value"),
        (RANK, RERANK | {"top_n": 0}, "top_n", "invalid_value"),
        (RANK, RERANK | {"query": ""}, "query", "invalid_value"),
        (RANK, RERANK | {"truncate": 9}, "truncate", "unsupported_parameter"),
    ],
)
async def test_bad_values_of_others(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], param: str, code: str
) -> None:
    reply = await client.post(path, json=body)
    assert reply.status_code == (404 if code == "model_not_found" else 400), reply.text
    error = error_of(reply)
    assert (error["param"], error["code"]) == (param, code)


async def test_an_unknown_parameter_that_is_not_even_text(client: httpx.AsyncClient) -> None:
    body = json.dumps(ASK | {"\ud800\r\n": 1})
    reply = await client.post(CHAT, content=body, headers=JSON)
    assert reply.status_code == 200
    assert reply.headers["x-dragon-ignored"] == r"\ud800\r\n"


async def test_neutral_values_of_unsupported_parameters_pass(client: httpx.AsyncClient) -> None:
    chat = {
        "n": 1, "logprobs": False, "tools": [], "tool_choice": "auto", "presence_penalty": 0.0,
        "frequency_penalty": 0, "logit_bias": {}, "response_format": {"type": "text"},
        "user": "me", "store": False, "metadata": {"a": "b"}, "stop": None, "seed": None,
        "max_completion_tokens": 5, "max_tokens": 5, "service_tier": "auto",
    }  # fmt: skip
    assert (await client.post(CHAT, json=ASK | chat)).status_code == 200
    text = {"best_of": 1, "echo": False, "suffix": None, "logprobs": None, "stop": ["a", "b"]}
    assert (await client.post(TEXT, json=CONTINUE | text)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, ASK | user("word " * 1000), "messages"),
        (TEXT, CONTINUE | {"prompt": ["short", "word " * 1000]}, "prompt"),
        (TEXT, CONTINUE | {"prompt": [5] * 1000}, "prompt"),
    ],
)
async def test_a_prompt_over_the_context(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], param: str, stream: bool
) -> None:
    error = await refused(client, path, body | {"stream": stream})
    assert (error["param"], error["code"]) == (param, "context_length_exceeded")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_over_the_context(
    client: httpx.AsyncClient, generation: FakeGeneration, stream: bool
) -> None:
    prompts = {"prompt": [[5], [5] * 200], "max_tokens": 100}  # only the second is too long
    error = await refused(client, TEXT, CONTINUE | prompts | {"stream": stream})
    assert (error["param"], error["code"]) == ("prompt", "context_length_exceeded")
    assert generation.requests == []
    # In a chat it is the most that an answer may have.
    reply = await client.post(CHAT, json=ASK | {"max_tokens": 100_000, "stream": stream})
    assert reply.status_code == 200
    assert [request.max_tokens for request in generation.requests] == [None]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model(client: httpx.AsyncClient, stream: bool) -> None:
    for path, body in ((CHAT, ASK), (TEXT, CONTINUE)):
        reply = await client.post(path, json=body | {"model": "gpt-5", "stream": stream})
        assert reply.status_code == 404
        error = error_of(reply)
        assert (error["param"], error["code"]) == ("model", "model_not_found")
        assert "dragon-7m" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("refusal", "status", "kind"),
    [
        (OverloadedError("no slot is free"), 503, "overloaded_error"),
        (LinkError("the peer is gone"), 502, "server_error"),
        (RuntimeError("a secret of the engine"), 500, "server_error"),
    ],
)
async def test_failures_before_the_first_event(
    client: httpx.AsyncClient,
    generation: FakeGeneration,
    refusal: Exception,
    status: int,
    kind: str,
    stream: bool,
) -> None:
    generation.refuse = refusal
    reply = await client.post(CHAT, json=ASK | {"stream": stream})
    assert reply.status_code == status
    assert error_of(reply)["type"] == kind
    assert "secret" not in reply.text
    assert ("retry-after" in reply.headers) == (status == 503)
    assert generation.active == 0


async def test_unknown_paths_and_methods(client: httpx.AsyncClient) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/static/../app/main.py", 404),
        ("GET", "/docs", 404),
        ("DELETE", "/v1/chat/completions", 405),
        ("GET", "/v1/completions", 405),
        ("POST", "/health", 405),
        ("POST", "/static/js/main.js", 405),
    ):
        reply = await client.request(method, path)
        assert reply.status_code == status, path
        error = error_of(reply)
        assert error["code"] == ("not_found" if status == 404 else "method_not_allowed")
        assert ("/openapi.json" in error["message"]) == (status == 404)


async def test_a_body_over_the_limit(client: httpx.AsyncClient) -> None:
    async def endless() -> Any:
        for _ in range(MAX_BODY_BYTES // 65536 + 1):
            yield b" " * 65536

    for content in (b" " * (MAX_BODY_BYTES + 1), endless()):
        reply = await client.post(CHAT, content=content, headers=JSON)
        assert reply.status_code == 413
        assert error_of(reply)["code"] == "request_too_large"


def test_a_body_over_the_limit_on_a_socket(address: str) -> None:
    for _ in range(2):  # whoever sends on before reading hears the reason, too
        reply = httpx.post(
            f"http://{address}{CHAT}",
            content=b" " * (MAX_BODY_BYTES * 4),
            headers=HEADERS,
            timeout=60,
        )
        assert reply.status_code == 413
    assert httpx.get(f"http://{address}/health", timeout=60).status_code == 200
