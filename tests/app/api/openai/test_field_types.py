"""The rule for parameters: done by any name, taken as nothing, named, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.container import AppState
from app.main import create_app
from app.settings import Settings
from tests.app.api.test_bad_input import ASK, CHAT, CONTINUE, TEXT, refused
from tests.app.conftest import in_process
from tests.fakes import FakeGeneration

IGNORED = "x-dragon-ignored"
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}}
DONE: list[tuple[dict[str, Any], str, Any]] = [
    ({"repeat_penalty": 1.2}, "sampling.repetition_penalty", 1.2),
    ({"n_predict": 7}, "max_tokens", 7),
    ({"max_new_tokens": 7}, "max_tokens", 7),
    ({"max_tokens": -1}, "max_tokens", None),
    ({"top_p": 0}, "sampling.top_p", 1e-6),
    ({"stop_token_ids": [5, 6]}, "stop_tokens", {5, 6}),
    ({"include_stop_str_in_output": True}, "with_stop", True),
    ({"skip_special_tokens": False}, "special", True),
]
GUIDED: list[tuple[dict[str, Any], str]] = [
    ({"guided_json": SCHEMA}, '{"key": "x"}'),
    ({"guided_json": json.dumps(SCHEMA)}, '{"key": "x"}'),
    ({"json_schema": SCHEMA}, '{"key": "x"}'),
    ({"structured_outputs": {"json": SCHEMA}}, '{"key": "x"}'),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, '{"key": "x"}'),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, '{"key":'),
    ({"guided_regex": "ab+"}, "abb"),
    ({"guided_choice": ["yes", 'no "x"']}, 'no "x"'),
    ({"structured_outputs": {"choice": ["yes"]}}, "yes"),
    ({"guided_grammar": 'root ::= "yes"'}, "yes"),
    ({"grammar": 'root ::= "yes"'}, "yes"),
    ({"dragon": {"grammar": 'root ::= "yes" | "no"'}}, "yes"),
    ({"dragon": {"grammar": 'start: "yes" | "no"'}}, "no"),
    ({"dragon": {"regex": "[a-f]+"}}, "bad"),
]
NOTHING: list[dict[str, Any]] = [
    {"tools": None}, {"stop": None, "seed": None, "response_format": None, "logit_bias": None},
    {"cache_prompt": True}, {"keep_alive": "5m"}, {"num_ctx": 4096}, {"store": True},
    {"typical_p": 1}, {"mirostat": 0}, {"service_tier": "flex"}, {"id_slot": -1},
    {"prompt_cache_key": "a"}, {"metadata": {"a": "b"}}, {"length_penalty": 1.0},
    {"use_beam_search": False}, {"priority": 3}, {"logits_processors": []}, {"stop": ""},
]  # fmt: skip
UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"best": 5}, "best"),
    ({"best": 5, "zebra": {}}, "best, zebra"),
    ({"stream": True, "stream_options": {"colour": 1}}, "stream_options.colour"),
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mirostat": 2}, "mirostat"),
    ({"typical_p": 0.5}, "typical_p"),
    ({"use_beam_search": True}, "use_beam_search"),
    ({"bad_words": ["no"]}, "bad_words"),
    ({"chat_template": "x"}, "chat_template"),
    ({"repetition_penalty": 1.1, "repeat_penalty": 1.2}, "repeat_penalty"),
    ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice"),
    ({"guided_json": "{"}, "guided_json"),
    ({"guided_regex": "("}, "guided_regex"),
]
both = pytest.mark.parametrize(("path", "good"), [(CHAT, ASK), (TEXT, CONTINUE)])


@both
async def test_what_can_be_done_is_done_by_any_name(
    client: httpx.AsyncClient, generation: FakeGeneration, path: str, good: dict[str, Any]
) -> None:
    for body, name, expected in DONE:
        reply = await client.post(path, json=good | body)
        assert reply.status_code == 200, reply.text
        assert IGNORED not in reply.headers
        found: Any = generation.requests[-1]
        for step in name.split("."):
            found = getattr(found, step)
        assert found == expected, body


@both
async def test_a_format_by_any_name(
    client: httpx.AsyncClient, generation: FakeGeneration, path: str, good: dict[str, Any]
) -> None:
    generation.quotes_alone = False
    for body, kept in GUIDED:
        reply = await client.post(path, json=good | body)
        assert reply.status_code == 200, (body, reply.text)
        assert IGNORED not in reply.headers
        mask = generation.tokenizer.mask(generation.requests[-1].sampling.grammar)
        tokens = generation.tokenizer.encode(kept)
        assert all(mask.permits(tokens[:n], token) for n, token in enumerate(tokens)), body
        assert not mask.permits([], generation.tokenizer.encode("zebra")[0])


async def test_tokens_that_are_allowed(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    generation.quotes_alone = False
    reply = await client.post(CHAT, json=ASK | {"allowed_token_ids": [40, 41]})
    assert reply.status_code == 200
    mask = generation.tokenizer.mask(generation.requests[0].sampling.grammar)
    allowed = mask.allowed([40, 41]).nonzero().flatten().tolist()
    assert set(allowed) - generation.tokenizer.end_ids == {40, 41}


@both
async def test_what_asks_for_nothing_is_taken(
    client: httpx.AsyncClient, path: str, good: dict[str, Any]
) -> None:
    for body in NOTHING:
        reply = await client.post(path, json=good | body)
        assert reply.status_code == 200, (body, reply.text)
        assert IGNORED not in reply.headers, body


@both
async def test_what_is_unknown_is_taken_and_named(
    client: httpx.AsyncClient, path: str, good: dict[str, Any]
) -> None:
    for body, named in UNKNOWN:
        reply = await client.post(path, json=good | body)
        assert (reply.status_code, reply.headers.get(IGNORED)) == (200, named)
        again = await client.post(path, json=good | body | {"dragon": {}})
        assert f'"ignored":{json.dumps(named.split(", "), separators=(",", ":"))}' in again.text
    reply = await client.post(path, json=good | {"dragon": {}})
    assert IGNORED not in reply.headers
    assert "ignored" not in reply.text


@both
async def test_only_what_changes_the_meaning_and_cannot_be_done_is_refused(
    client: httpx.AsyncClient, path: str, good: dict[str, Any]
) -> None:
    for body, param in REFUSED:
        assert (await refused(client, path, good | body))["param"] == param


async def test_ours_are_checked_in_any_case(client: httpx.AsyncClient) -> None:
    error = await refused(client, CHAT, ASK | {"dragon": {"privat": True}})
    assert error["param"] == "dragon.privat"


async def test_messages_may_have_what_clients_keep_in_them(client: httpx.AsyncClient) -> None:
    part = {"type": "text", "text": "Where is it?", "cache_control": {"type": "ephemeral"}}
    first = {"role": "assistant", "content": "Hm.", "reasoning_content": "x", "id": "m1"}
    turns = [{"role": "user", "content": "Hello."}, first, {"role": "user", "content": [part]}]
    reply = await client.post(CHAT, json=ASK | {"messages": turns})
    assert (reply.status_code, IGNORED in reply.headers) == (200, False)
    turns[1] = {**first, "mood": "good"}
    reply = await client.post(CHAT, json=ASK | {"messages": turns})
    assert reply.headers[IGNORED] == "messages[].mood"


async def test_without_a_model_it_is_the_one_that_is_served(client: httpx.AsyncClient) -> None:
    for path, body in ((CHAT, ASK), (TEXT, CONTINUE)):
        nameless = {name: value for name, value in body.items() if name != "model"}
        assert (await client.post(path, json=nameless)).json()["model"] == "dragon-7m"
    reply = await client.post("/v1/embeddings", json={"input": "a"})
    assert reply.json()["model"] != "dragon-7m"


async def test_with_strict_settings_what_is_unknown_is_refused(
    settings: Settings, state: AppState
) -> None:
    app = create_app(settings.model_copy(update={"strict": True}), state)
    async with in_process(app) as client:
        for path, body in ((CHAT, ASK), (TEXT, CONTINUE)):
            error = await refused(client, path, body | {"best": 5})
            assert (error["param"], error["code"]) == ("best", "unknown_parameter")
            reply = await client.post(path, json=body | {"repeat_penalty": 1.1})
            assert reply.status_code == 200
