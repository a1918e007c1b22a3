"""HEAD, a slash at a path's end, packed bodies."""

from __future__ import annotations

import gzip
import json
import zlib

import httpx
import pytest

from app.main import MAX_BODY_BYTES
from tests.app.api.test_bad_input import ASK, CHAT, error_of

BODY = json.dumps(ASK).encode()


async def posted(client: httpx.AsyncClient, body: bytes, packed: str) -> httpx.Response:
    headers = {"content-type": "application/json", "content-encoding": packed}
    return await client.post(CHAT, content=body, headers=headers)


async def test_a_head_is_a_get_without_its_body(client: httpx.AsyncClient) -> None:
    for path in ("/v1/models", "/health", "/api/tags"):
        whole, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert (await client.head(CHAT)).status_code == 405


async def test_a_slash_at_the_end(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models/")).json() == (await client.get("/v1/models")).json()
    assert (await client.post(f"{CHAT}/", json=ASK)).status_code == 200
    assert (await client.post("/mcp/", json={})).status_code != 404
    client.headers.pop("Authorization")
    for path in ("/v1/models/", "/mcp/"):
        assert (await client.get(path)).status_code == 401


@pytest.mark.parametrize(
    ("packed", "body"), [("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY))]
)
async def test_packed_bodies(client: httpx.AsyncClient, packed: str, body: bytes) -> None:
    assert (await posted(client, body, packed)).status_code == 200


async def test_a_stream_answers_a_packed_body(client: httpx.AsyncClient) -> None:
    body = gzip.compress(json.dumps(ASK | {"stream": True}).encode())
    assert (await posted(client, body, "gzip")).text.endswith("data: [DONE]\n\n")


async def test_bodies_that_cannot_be_unpacked(client: httpx.AsyncClient) -> None:
    assert error_of(await posted(client, b"gibberish", "gzip"))["code"] == "invalid_json"
    assert (await posted(client, gzip.compress(BODY)[:20], "gzip")).status_code == 400
    assert (await posted(client, BODY, "br")).status_code == 415


async def test_a_bomb_is_as_large_as_what_it_unpacks_to(client: httpx.AsyncClient) -> None:
    reply = await posted(client, gzip.compress(b" " * (MAX_BODY_BYTES + 1)), "gzip")
    assert reply.status_code == 413
    assert error_of(reply)["code"] == "request_too_large"
