"""Named API keys: what each may do, and that a running device follows their file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Match

from app.api_keys import API_KEYS, ApiKey, Credential, Documents, May, api_keys
from app.auth import Authenticator
from app.container import AppState
from dragon.inference.fairness import HOUSEHOLD, Household
from tests.app.conftest import KEY

ASK = {"model": "dragon-7m", "messages": [{"role": "user", "content": "?"}]}
ASKING = {
    "POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings", "POST /v1/rerank",
    "POST /v1/search", "POST /v1/responses", "GET /v1/responses/a", "DELETE /v1/responses/a",
    "GET /v1/models", "GET /v1/models/a/b", "POST /tokenize", "POST /detokenize",
    "POST /api/chat", "POST /api/generate", "POST /api/embed", "POST /api/show", "GET /api/tags",
    "GET /api/version", "POST /v1/vector_stores/a/search", "GET /v1/responses/a/input_items",
    "POST /v1/messages", "POST /v1/messages/count_tokens", "POST /api/embeddings", "GET /api/ps",
}  # fmt: skip
UPLOADING = {
    "GET /v1/files", "POST /v1/files", "GET /v1/files/a", "GET /v1/files/a/content",
    "GET /v1/files/a/text", "GET /v1/files/a/events", "POST /v1/files/a/cancel",
    "POST /v1/files/a/retry", "POST /v1/files/a/share", "POST /v1/files/a/unshare",
    "GET /v1/collections", "POST /mcp", "GET /mcp", "DELETE /mcp",
    "GET /v1/vector_stores", "POST /v1/vector_stores", "GET /v1/vector_stores/a",
    "GET /v1/vector_stores/a/files", "POST /v1/vector_stores/a/files",
    "GET /v1/vector_stores/a/files/b", "POST /v1/vector_stores/a/file_batches",
    "GET /v1/vector_stores/a/file_batches/b", "GET /v1/vector_stores/a/file_batches/b/files",
    "POST /v1/vector_stores/a/file_batches/b/cancel",
}  # fmt: skip
DEVICE = {"POST /api/models/use", "POST /api/models/try", "POST /api/folders"}
NEITHER = DEVICE | {
    "DELETE /v1/vector_stores/a", "DELETE /v1/vector_stores/a/files/b",
    "DELETE /v1/files/a", "GET /api/ledger", "GET /api/ledger/a", "GET /api/ledger/reads",
    "GET /api/conversations", "DELETE /api/conversations/a", "GET /api/status",
    "GET /api/models", "GET /api/folders", " /ws/chat", "POST /v1/files/a/b/retry",
    "POST /v1/chat/completions/a", "GET /v1/modelsx",
}  # fmt: skip


@pytest.mark.parametrize(
    ("may", "allowed"),
    [(May.ASK, ASKING), (May.UPLOAD, ASKING | UPLOADING), (May.ALL, ASKING | UPLOADING | NEITHER)],
)
def test_what_each_may_do(may: May, allowed: set[str]) -> None:
    everything = ASKING | UPLOADING | NEITHER
    for documents in Documents:
        key = ApiKey(name="anna", digest="0" * 64, may=may, documents=documents)
        asking = Credential(key)
        device = DEVICE if documents is Documents.OWN else set()
        permitted = {each for each in everything if asking.permits(*each.split(" ", 1))}
        assert permitted == allowed - device
        assert asking.owner == ("anna" if documents is Documents.OWN else "")
    assert all(Credential().permits(*each.split(" ", 1)) for each in everything)


def test_what_is_listed_is_a_route(app: FastAPI) -> None:
    for each in ASKING | UPLOADING:
        method, path = each.split(" ", 1)
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        assert any(route.matches(scope)[0] is not Match.NONE for route in app.routes), each


@pytest.fixture
def state(state: AppState, tmp_path: Path) -> AppState:
    """With named keys."""
    return dataclasses.replace(state, auth=Authenticator(KEY, named=api_keys(tmp_path)))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_running_device_follows(client: httpx.AsyncClient, tmp_path: Path) -> None:
    named = api_keys(tmp_path)
    anna, bela = named.add("anna", may=May.ASK), named.add("bela", may=May.ALL)
    asked = await client.post("/v1/chat/completions", json=ASK, headers=bearer(anna))
    assert asked.status_code == 200
    refused = await client.get("/v1/files", headers=bearer(anna))
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (403, "not_permitted")
    assert "anna is for asking only" in error["message"]
    assert (await client.get("/v1/files", headers=bearer(bela))).status_code == 200
    named.revoke("bela")
    gone = await client.get("/v1/files", headers=bearer(bela))
    assert (gone.status_code, gone.json()["error"]["code"]) == (401, "invalid_api_key")
    assert (await client.get("/v1/files")).status_code == 200  # the device's own


async def test_a_damaged_file_locks_nobody_out(
    client: httpx.AsyncClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anna = api_keys(tmp_path).add("anna")
    assert (await client.get("/v1/models", headers=bearer(anna))).status_code == 200
    (tmp_path / API_KEYS).write_text("{")
    for key in (anna, KEY):
        assert (await client.get("/v1/models", headers=bearer(key))).status_code == 200
    assert caplog.text.count(API_KEYS) == 1


async def test_keys_share_the_device(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As households, whatever their programs call themselves."""
    households: list[Household] = []
    anna = api_keys(tmp_path).add("anna")

    class Noted:
        def set(self, household: Household) -> None:
            households.append(household)

    monkeypatch.setattr("app.middleware.HOUSEHOLD", Noted())
    for key in (anna, KEY):
        await client.get("/v1/models", headers=bearer(key))
    assert len(set(households)) == 2
    assert "anna" in households[0].name
    assert HOUSEHOLD.get() == Household()


async def test_a_browser_is_signed_in_for_as_long_as_its_key_is_good(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    named = api_keys(tmp_path)
    anna = named.add("anna", may=May.ALL, documents=Documents.OWN)
    guest = named.add("guest", may=May.ASK, documents=Documents.OWN)
    del client.headers["Authorization"]
    refused = await client.post("/sign-in", data={"key": guest})
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert (await client.post("/sign-in", data={"key": anna})).status_code == 303
    assert (await client.get("/")).status_code == 200
    assert (await client.get("/api/status")).json()["household"] is True
    concerns_all = await client.post("/api/models/use", json={"name": "other"})
    assert concerns_all.status_code == 403
    assert "the device's own key" in concerns_all.json()["error"]["message"]
    named.revoke("anna")
    named.add("anna", may=May.ALL, documents=Documents.OWN)  # another key of that name
    assert (await client.get("/api/status")).status_code == 401
    assert (await client.get("/")).status_code == 401
