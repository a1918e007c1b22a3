"""What an answer may be held to, and what is refused with a sentence."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.app.api.test_bad_input import ASK, CHAT, CONTINUE, TEXT, refused
from tests.fakes import FakeGeneration

SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
PLACE = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
HELD: list[dict[str, Any]] = [
    {"response_format": PLACE},
    {"response_format": {"type": "json_object"}},
    {"dragon": {"regex": "[a-z]+"}},
    {"dragon": {"grammar": 'start: "yes" | "no"'}},
    {"dragon": {"grammar": 'root ::= "yes" | "no"'}},
]


async def test_text_is_held_to_nothing(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    for held in ({}, {"response_format": None}, {"response_format": {"type": "text"}}):
        assert (await client.post(CHAT, json=ASK | held)).status_code == 200
    assert {request.sampling.grammar for request in generation.requests} == {""}


@pytest.mark.parametrize("held", HELD)
async def test_a_model_that_quotes_says_that_it_cannot(
    client: httpx.AsyncClient, held: dict[str, Any]
) -> None:
    error = await refused(client, CHAT, ASK | held)
    assert "sentences of your documents, word for word" in error["message"]
    # A text is continued freely.
    assert (await client.post(TEXT, json=CONTINUE | held)).status_code == 200


def schema(**fields: Any) -> dict[str, Any]:
    described = {"name": "place", "schema": SCHEMA, **fields}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


@pytest.mark.parametrize(
    ("change", "param", "reason"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format.type", "'text'"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "type"),
        ({"response_format": {**PLACE, "type": "text"}}, "response_format.json_schema", "type"),
        (schema(name="my place"), "response_format.json_schema.name", "match"),
        (schema(schema={"uniqueItems": True}), "response_format", "uniqueItems"),
        (schema(schema={"type": "place"}), "response_format", "place"),
        ({"dragon": {"regex": "("}}, "dragon.regex", "unclosed group"),
        ({"dragon": {"grammar": "?"}}, "dragon.grammar", "cannot be a grammar"),
        ({"dragon": {"grammar": "a", "regex": "b"}}, "dragon.regex", "contradicts grammar"),
        (schema() | {"dragon": {"regex": "b"}}, "dragon.regex", "contradicts response_format"),
        (schema() | {"min_tokens": 3}, "min_tokens", "where an answer ends"),
        (schema() | {"ignore_eos": True}, "ignore_eos", "where an answer ends"),
    ],
)
async def test_what_cannot_be_kept_to_is_refused_by_name(
    client: httpx.AsyncClient,
    generation: FakeGeneration,
    change: dict[str, Any],
    param: str,
    reason: str,
) -> None:
    generation.quotes_alone = False
    error = await refused(client, CHAT, ASK | change)
    assert error["param"] == param
    assert reason in error["message"]
    assert generation.requests == []


DOUBLING = "\n".join(
    ["root ::= a0", *(f"a{n} ::= a{n + 1} a{n + 1}" for n in range(24)), 'a24 ::= "x"']
)
ENORMOUS = {"type": "integer", "minimum": 10**300}


@pytest.mark.parametrize(
    ("costly", "param"),
    [
        ({"dragon": {"grammar": DOUBLING}}, "dragon.grammar"),
        ({"dragon": {"regex": "(" * 30_000}}, "dragon.regex"),
        (schema(schema=ENORMOUS), "response_format"),
        ({"guided_json": ENORMOUS}, "guided_json"),
    ],
)
async def test_what_costs_too_much_is_refused_in_a_sentence(
    client: httpx.AsyncClient, generation: FakeGeneration, costly: dict[str, Any], param: str
) -> None:
    generation.quotes_alone = False
    error = await refused(client, CHAT, ASK | costly)
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: ")
    assert len(error["message"]) < 500
    assert not [each for each in ("panicked", "backtrace", "\n") if each in error["message"]]
