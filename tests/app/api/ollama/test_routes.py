"""Ollama's own client, against the service: chats, prompts, streams, models, embeddings.

Covers `app.api.ollama.bodies`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import ollama
import pytest

from app.generation.events import Details
from dragon.errors import OverloadedError
from tests.app.api.openai.test_tools import ARGUMENTS, calls
from tests.app.conftest import HEADERS, KEY
from tests.fakes import FakeGeneration
from tests.samples import embedder

__all__ = ["calls"]  # a fixture

MODEL, EMBEDDER = "dragon-7m", "all-MiniLM-L6-v2"
ASK = [{"role": "user", "content": "Where is the key?"}]
TEXT = "The key is under the mat."


@pytest.fixture
def client(address: str) -> Iterator[ollama.Client]:
    with ollama.Client(f"http://{address}", headers=HEADERS) as client:
        yield client


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    url = f"http://{address}"
    with httpx.Client(base_url=url, headers=HEADERS, timeout=60, verify=False) as client:
        yield client


def test_a_chat(client: ollama.Client, generation: FakeGeneration) -> None:
    reply = client.chat(MODEL, ASK, options={"seed": 7, "num_predict": 100, "num_ctx": 2048})
    assert (reply.message.role, reply.message.content) == ("assistant", TEXT)
    assert (reply.model, reply.done, reply.done_reason) == (MODEL, True, "stop")
    assert reply.eval_count == 7
    assert reply.prompt_eval_count > 0
    assert reply.total_duration >= reply.eval_duration >= 0
    (request,) = generation.requests
    assert (request.sampling.seed, request.max_tokens) == (7, 100)
    assert request.sampling.temperature == 0.0  # what quotes takes the likeliest


def test_only_numbers_mean_no_limit(http: httpx.Client) -> None:
    for given, status in ((-2, 200), (-1, 200), (0, 200), (-3, 400), (False, 400), ("", 400)):
        body = {"model": MODEL, "messages": ASK, "stream": False}
        reply = http.post("/api/chat", json=body | {"options": {"num_predict": given}})
        assert reply.status_code == status, given


def test_a_streamed_chat(client: ollama.Client) -> None:
    *pieces, end = client.chat(f"{MODEL}:latest", ASK, stream=True)
    assert "".join(piece.message.content for piece in pieces) == TEXT
    assert not any(piece.done for piece in pieces)
    assert (end.done, end.done_reason, end.message.content) == (True, "stop", "")


def test_a_stream_is_lines_unless_it_is_declined(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": ASK}
    reply = http.post("/api/chat", json=body)
    assert reply.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    reply = http.post("/api/chat", json=body | {"stream": False})
    assert reply.headers["content-type"] == "application/json"


def test_a_prompt_with_and_without_the_template(
    client: ollama.Client, generation: FakeGeneration
) -> None:
    said = client.generate(MODEL, "Where?", system="Be brief.", options={"stop": ["under"]})
    assert (said.response, said.done_reason) == ("The key is ", "stop")
    pieces = list(client.generate(MODEL, "Where?", raw=True, stream=True))
    assert "".join(piece.response for piece in pieces) == TEXT
    chat, raw = generation.requests
    assert (chat.raw, chat.query, raw.raw, raw.query) == (False, "Where?", True, "Where?")
    assert len(chat.conversation) > len(raw.conversation)


def test_logprobs(client: ollama.Client, generation: FakeGeneration) -> None:
    whole = client.chat(MODEL, ASK, logprobs=True, top_logprobs=2)
    assert "".join(each.token for each in whole.logprobs) == TEXT
    assert {len(each.top_logprobs) for each in whole.logprobs} == {2}
    pieces = client.chat(MODEL, ASK, logprobs=True, top_logprobs=2, stream=True)
    scored = [each.token for piece in pieces for each in piece.logprobs or []]
    assert "".join(scored) == TEXT
    assert generation.requests[0].details == Details(top=2)


def test_where_it_comes_from_if_that_is_asked_for(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": ASK, "stream": False}
    assert "dragon" not in http.post("/api/chat", json=body).json()
    for wanted in (False, True):
        dragon = {"private": True, "provenance": wanted}
        own = http.post("/api/chat", json=body | {"dragon": dragon}).json()["dragon"]
        (choice,) = own["choices"]
        assert choice["sources"][0]["title"] == "note.txt"
        assert ("provenance" in choice) == wanted


def test_a_request_to_load_the_model_writes_nothing(
    http: httpx.Client, generation: FakeGeneration
) -> None:
    for path, body in (("chat", {}), ("chat", {"messages": []}), ("generate", {"prompt": ""})):
        reply = http.post(f"/api/{path}", json={"model": MODEL, "keep_alive": "5m", **body}).json()
        assert (reply["done"], reply["done_reason"]) == (True, "load")
    assert generation.requests == []


def test_models(client: ollama.Client, http: httpx.Client) -> None:
    assert [model.model for model in client.list().models] == [MODEL, EMBEDDER]
    shown = client.show(MODEL)
    assert shown.capabilities == ["completion"]
    assert shown.modelinfo["dragon.context_length"] == 256
    assert client.show(EMBEDDER).capabilities == ["embedding"]
    assert http.get("/api/version").json()["version"].count(".") == 2
    with pytest.raises(ollama.ResponseError) as caught:
        client.show("llama3")
    assert str(caught.value).startswith("The model 'llama3' does not exist")
    assert caught.value.status_code == 404


def test_older_routes_and_names(client: ollama.Client, http: httpx.Client) -> None:
    shown = http.post("/api/show", json={"name": MODEL}).json()
    assert shown["model_info"]["general.basename"] == MODEL
    assert http.get("/api/ps").json() == http.get("/api/tags").json()
    old = http.post("/api/embeddings", json={"model": EMBEDDER, "prompt": "The cat sleeps."})
    (new,) = client.embed(EMBEDDER, "The cat sleeps.").embeddings
    assert old.json()["embedding"] == list(new)


def test_embeddings(client: ollama.Client) -> None:
    found = client.embed(EMBEDDER, ["One", "Two"])
    expected = embedder().embed(["One", "Two"])
    np.testing.assert_allclose(found.embeddings, expected, atol=1e-6)
    assert found.prompt_eval_count == 6
    long = "word " * 1000
    assert len(client.embed(EMBEDDER, long).embeddings[0]) == 384
    with pytest.raises(ollama.ResponseError) as caught:
        client.embed(EMBEDDER, long, truncate=False)
    assert caught.value.status_code == 400


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"options": {"mirostat": 2}}, "options.mirostat"),
    ({"format": "json"}, "format"),
    ({"format": "xml"}, "format"),
    ({"tools": ""}, "tools"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {"name": "now"}}]}, "tools"),
    ({"messages": [*ASK, {"role": "tool", "content": "In a box."}]}, "messages"),
    ({"model": "llama3"}, "model"),
]


def test_what_is_not_honoured_is_refused(http: httpx.Client) -> None:
    for more, param in REFUSED:
        reply = http.post("/api/chat", json={"model": MODEL, "messages": ASK, **more})
        assert reply.status_code in (400, 404), more
        assert param in reply.json()["error"]


def test_the_key_is_needed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, passes in ((None, False), ("wrong", False), (KEY, True)):
        if key is not None:
            monkeypatch.setenv("OLLAMA_API_KEY", key)
        with ollama.Client(f"http://{address}") as client:
            if passes:
                assert client.list().models
                continue
            with pytest.raises(ollama.ResponseError) as caught:
                client.list()
            assert caught.value.status_code == 401


def test_failures_before_and_in_a_stream(client: ollama.Client, generation: FakeGeneration) -> None:
    generation.refuse = OverloadedError("too many")
    with pytest.raises(ollama.ResponseError) as caught:
        list(client.chat(MODEL, ASK, stream=True))
    assert caught.value.status_code == 503
    generation.refuse, generation.fail_after = None, 3
    stream = client.chat(MODEL, ASK, stream=True)
    assert not next(stream).done
    with pytest.raises(ollama.ResponseError, match="its log"):
        list(stream)


def find_key(room: str) -> str:
    """Look for the key.

    Args:
        room: where to look
    """
    return f"Nothing in the {room}."


@pytest.mark.usefixtures("calls")
def test_tools(client: ollama.Client, generation: FakeGeneration, calls: int) -> None:
    whole = client.chat(MODEL, ASK, tools=[find_key])
    pieces = list(client.chat(MODEL, ASK, tools=[find_key], stream=True))
    streamed = [call for piece in pieces for call in piece.message.tool_calls or ()]
    text = "".join(piece.message.content for piece in pieces)
    for said, called in ((whole.message.content, whole.message.tool_calls), (text, streamed)):
        assert said == ("Let me look." if calls == 2 else "")
        assert [call.function.name for call in called] == ["find_key"] * calls
        assert [call.function.arguments for call in called] == [ARGUMENTS] * calls
    assert pieces[-1].done_reason == "stop"
    returned = [{"role": "tool", "tool_name": "find_key", "content": "In a box."}] * calls
    client.chat(MODEL, [*ASK, whole.message, *returned], tools=[find_key])
    shown = generation.tokenizer.decode(generation.requests[-1].conversation, special=True)
    assert "where to look" in shown
    assert shown.index('{"room": "attic"}') < shown.index("In a box.")
    assert "tools" in client.show(MODEL).capabilities
    assert "find_key" in client.chat(MODEL, ASK).message.content


@pytest.mark.parametrize("calls", [("qwen", '{"room": "attic"}', 0)], indirect=True)
@pytest.mark.usefixtures("calls")
def test_formats(client: ollama.Client, generation: FakeGeneration) -> None:
    def grammar(**more: Any) -> str:
        assert client.chat(MODEL, ASK, **more).message.content == generation.script
        return generation.requests[-1].sampling.grammar

    assert grammar() == grammar(format="") == ""
    assert grammar(format="json")
    schema = {"type": "object", "properties": {"room": {"type": "string"}}}
    assert "room" in grammar(format=schema)
    client.generate(MODEL, "Where?", raw=True, format=schema)
    assert "room" in generation.requests[-1].sampling.grammar
    with pytest.raises(ollama.ResponseError) as caught:
        grammar(format={"type": "nothing"})
    assert caught.value.status_code == 400
