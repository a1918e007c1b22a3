"""What llama.cpp's own tests of its server ask of OpenAI's routes, of a real model."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import httpx
import numpy as np
import pytest

from tests.conformance.conftest import EMBEDDER, Service

ASK = [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]
PROMPT = "I believe the meaning of life is"
DOCUMENTS = [
    "A machine is a device that uses power to do work.",
    "Learning is the process of acquiring new understanding, knowledge and skills.",
    "Machine learning is the study of programs that improve with experience.",
    "Paris is the capital of France.",
]


@pytest.fixture(scope="module")
def http(writer: Service) -> httpx.Client:
    headers = {"Authorization": f"Bearer {writer.key}"}
    return httpx.Client(base_url=writer.url, headers=headers, timeout=120)


def posted(http: httpx.Client, route: str, **body: Any) -> dict[str, Any]:
    reply = http.post(route, json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def chatted(http: httpx.Client, **more: Any) -> dict[str, Any]:
    asked = {"messages": ASK, "max_tokens": 8, "temperature": 0, **more}
    found: dict[str, Any] = posted(http, "/v1/chat/completions", **asked)["choices"][0]
    return found


def events(http: httpx.Client, route: str, **body: Any) -> list[dict[str, Any]]:
    with http.stream("POST", route, json={**body, "stream": True}) as reply:
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line[:4] == "data"]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_chat(http: httpx.Client) -> None:
    reply = posted(http, "/v1/chat/completions", messages=ASK, max_tokens=8)
    assert "cmpl" in reply["id"]
    assert reply["choices"][0]["message"]["role"] == "assistant"
    assert reply["choices"][0]["finish_reason"] == "length"
    prompt = posted(http, "/tokenize", messages=ASK)
    assert reply["usage"]["prompt_tokens"] == prompt["count"]
    assert reply["usage"]["completion_tokens"] == 8


def test_a_streamed_chat(http: httpx.Client) -> None:
    asked = {"messages": ASK, "max_tokens": 8, "temperature": 0}
    first, *pieces, end, usage = events(
        http, "/v1/chat/completions", stream_options={"include_usage": True}, **asked
    )
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert not any("role" in piece["choices"][0]["delta"] for piece in pieces)
    assert end["choices"][0]["delta"] == {}
    assert end["choices"][0]["finish_reason"] == "length"
    assert usage["usage"]["completion_tokens"] == 8
    text = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert text == chatted(http)["message"]["content"]
    assert len({event["id"] for event in (first, *pieces, end, usage)}) == 1


@pytest.mark.parametrize("begun", ["Whill", [{"type": "text", "text": "Whill"}]])
def test_a_turn_that_is_gone_on_with(http: httpx.Client, begun: Any) -> None:
    turn = {"role": "assistant", "content": begun}
    bare, open_turn = (
        posted(http, "/tokenize", messages=messages)["tokens"] for messages in (ASK, [*ASK, turn])
    )
    assert open_turn[: len(bare)] == bare
    assert posted(http, "/detokenize", tokens=open_turn[len(bare) :]) == {"prompt": "Whill"}


FORM = "response_format"


@pytest.mark.parametrize(
    ("held", "pattern"),
    [
        ({FORM: {"type": "json_object", "schema": {"const": "42"}}}, '"42"'),
        ({FORM: {"type": "json_schema", "json_schema": {"schema": {"const": "foo"}}}}, '"foo"'),
        ({FORM: {"type": "json_object"}}, r"\{.*"),
        ({"json_schema": {"const": "42"}}, '"42"'),
        ({"grammar": 'root ::= "a"{5,5}'}, "a{5}"),
    ],
)
def test_formats(http: httpx.Client, held: dict[str, Any], pattern: str) -> None:
    assert re.fullmatch(pattern, chatted(http, **held)["message"]["content"], re.DOTALL)


@pytest.mark.parametrize(
    "form",
    [
        {"type": "sound"},
        {"type": "json_object", "schema": 123},
        {"type": "json_object", "schema": {"type": 123}},
        {"type": "json_object", "schema": {"type": "hiccup"}},
    ],
)
def test_formats_that_are_none(http: httpx.Client, form: dict[str, Any]) -> None:
    reply = http.post("/v1/chat/completions", json={"messages": ASK, "response_format": form})
    assert reply.status_code == 400
    assert "error" in reply.json()


@pytest.mark.parametrize(
    "messages",
    [None, "text", [123], [{}], [{"role": 123}], [{"role": "system", "content": 123}], [*ASK, {}]],
)
def test_messages_that_are_none(http: httpx.Client, messages: Any) -> None:
    reply = http.post("/v1/chat/completions", json={"messages": messages})
    assert reply.status_code == 400
    assert "error" in reply.json()


def test_logprobs(http: httpx.Client) -> None:
    asked = {"logprobs": True, "top_logprobs": 10}
    choice = chatted(http, **asked)
    scored = choice["logprobs"]["content"]
    assert "".join(each["token"] for each in scored) == choice["message"]["content"]
    assert all(each["logprob"] <= 0 and len(each["top_logprobs"]) == 10 for each in scored)
    body = {"messages": ASK, "max_tokens": 8, "temperature": 0, **asked}
    for event in events(http, "/v1/chat/completions", **body)[1:-1]:
        piece = event["choices"][0]
        tokens = "".join(each["token"] for each in piece["logprobs"]["content"])
        assert tokens == piece["delta"]["content"]


def test_probabilities_by_their_other_name(http: httpx.Client) -> None:
    reply = posted(http, "/v1/completions", prompt=PROMPT, n_probs=10, n_predict=5, temperature=0)
    scored = reply["choices"][0]["logprobs"]
    assert len(scored["tokens"]) == 5
    assert all(10 <= len(top) <= 11 for top in scored["top_logprobs"])


def test_words_that_are_ruled_out(http: httpx.Client) -> None:
    usual = chatted(http)["message"]["content"]
    tokens = posted(http, "/tokenize", content=usual, add_special=False)["tokens"]
    bias = {str(token): -100 for token in tokens}
    assert chatted(http, logit_bias=bias)["message"]["content"] != usual


def written(http: httpx.Client, prompt: Any = PROMPT, **more: Any) -> list[str]:
    reply = posted(http, "/v1/completions", **{"prompt": prompt, "max_tokens": 8, **more})
    return [choice["text"] for choice in reply["choices"]]


def test_seeds(http: httpx.Client) -> None:
    assert written(http, seed=42) == written(http, seed=42, cache_prompt=False)
    assert len({written(http, seed=seed)[0] for seed in range(4)}) == 4


def test_prompts_in_tokens(http: httpx.Client) -> None:
    tokens = posted(http, "/tokenize", content=PROMPT, add_special=True)["tokens"]
    one, other = written(http, [tokens, tokens], temperature=0)
    assert [one] == [other] == written(http, temperature=0)


def test_stop_strings_in_a_stream(http: httpx.Client) -> None:
    (usual,) = written(http, temperature=0)
    stop = usual.split()[2]
    pieces = events(http, "/v1/completions", prompt=PROMPT, temperature=0, stop=[stop, "\n\n\n"])
    text = "".join(piece["choices"][0]["text"] for piece in pieces)
    assert text == usual[: usual.index(stop)]
    assert pieces[-1]["choices"][0]["finish_reason"] == "stop"


def test_prompts_longer_than_the_context(http: httpx.Client) -> None:
    reply = http.post("/v1/completions", json={"prompt": 5000 * "life is "})
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "context_length_exceeded"


def test_embeddings(http: httpx.Client) -> None:
    def vectors(given: Any, **more: Any) -> list[Any]:
        reply = posted(http, "/v1/embeddings", model=EMBEDDER, input=given, **more)
        return [each["embedding"] for each in reply["data"]]

    alone, *others = vectors(["One text", "Two texts", "One text"])
    assert np.linalg.norm(alone) == pytest.approx(1, abs=1e-5)
    assert others[1] == pytest.approx(alone, abs=1e-5)
    assert vectors("One text")[0] == pytest.approx(alone, abs=1e-5)
    tokens = posted(http, "/tokenize", model=EMBEDDER, content="One text")["tokens"]
    assert vectors(tokens)[0] == pytest.approx(alone, abs=1e-5)
    (packed,) = vectors("One text", encoding_format="base64")
    assert np.frombuffer(base64.b64decode(packed), "<f4") == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("given", [{}, [], 3, [[]]])
def test_embeddings_of_nothing(http: httpx.Client, given: Any) -> None:
    assert http.post("/v1/embeddings", json={"input": given}).status_code == 400


def test_rankings(http: httpx.Client) -> None:
    asked = {"query": "What is machine learning?", "documents": DOCUMENTS}
    results = posted(http, "/v1/rerank", **asked)["results"]
    assert results[0]["index"] == 2
    assert results[0]["relevance_score"] > 10 * results[-1]["relevance_score"]
    assert len(posted(http, "/v1/rerank", top_n=2, **asked)["results"]) == 2
    assert len(posted(http, "/v1/rerank", top_n=10, **asked)["results"]) == 4


@pytest.mark.parametrize("documents", [None, [], 123, [1, 2, 3]])
def test_rankings_of_nothing(http: httpx.Client, documents: Any) -> None:
    reply = http.post("/v1/rerank", json={"query": "What?", "documents": documents})
    assert reply.status_code == 400
    assert "error" in reply.json()


def test_tokens_and_back(http: httpx.Client) -> None:
    tokens = posted(http, "/tokenize", content="What is the capital of France ?")["tokens"]
    assert posted(http, "/detokenize", tokens=tokens)["prompt"] == "What is the capital of France ?"
