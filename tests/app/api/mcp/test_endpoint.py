"""`/mcp` before the protocol begins: who may come in, and what a device without the SDK says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.api.mcp import endpoint
from app.api_keys import May, api_keys
from app.auth import Authenticator
from app.container import AppState
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import KEY, serving

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


def test_a_key_that_holds_all_of_its_sessions_leaves_others_theirs(
    settings: Settings, state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_SESSIONS", 2)
    named = api_keys(tmp_path)
    anna, ben = (named.add(name, may=May.UPLOAD) for name in ("anna", "ben"))
    app = create_app(settings, replace(state, auth=Authenticator(KEY, named=named)))
    about = {"name": "assistant", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    accepted = {"Accept": "application/json, text/event-stream"}

    def begin(key: str) -> int:
        headers = accepted | {"Authorization": f"Bearer {key}"}
        body = INITIALIZE | {"params": params}
        return httpx.post(f"http://{address}/mcp", headers=headers, json=body).status_code

    with serving(app) as address:
        assert [begin(anna) for _ in range(3)] == [200, 200, 503]
        assert begin(ben) == 200
