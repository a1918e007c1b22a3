"""`/mcp` before the protocol begins: who may come in, and what a device without the SDK says."""

from __future__ import annotations

import sys

import httpx
import pytest

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": ""}, 401),
        ({"Host": "evil.example"}, 400),
    ],
)
async def test_only_those_with_the_key_come_in(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    for method in ("GET", "POST", "DELETE"):
        reply = await client.request(method, "/mcp", headers=headers)
        assert reply.status_code == status


async def test_a_device_without_the_extra_says_how_to_get_it(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    reply = await client.post("/mcp", json=INITIALIZE)
    assert reply.status_code == 501
    assert "pip install 'dragon-rag[mcp]'" in reply.json()["error"]["message"]
