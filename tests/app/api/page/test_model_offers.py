"""`/api/models/offers` and what fetches one, as the page calls them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from app.models.catalogue import OFFERS
from harness.faults.hub import Hub, serving


async def test_one_is_fetched_and_stands_as_here(
    client: httpx.AsyncClient, embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def offer() -> dict[str, object]:
        listed = (await client.get("/api/models/offers")).json()["data"]
        assert [each["name"] for each in listed] == [each.name for each in OFFERS]
        first: dict[str, object] = listed[0]
        return first

    with serving(Hub(embedded_gguf.read_bytes())) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        before = await offer()
        assert (before["stage"], before["fits"], before["licence"]) == ("none", True, "Apache-2.0")
        begun = await client.post("/api/models/get", json={"name": before["name"]})
        assert begun.status_code == 202
        while (now := await offer())["stage"] == "coming":
            pass
    assert now["stage"] == "here"
    assert now["there"] == now["size"]


async def test_one_that_is_not_offered_is_unknown(client: httpx.AsyncClient) -> None:
    for path in ("/api/models/get", "/api/models/get/cancel"):
        refused = await client.post(path, json={"name": "nothing"})
        assert refused.status_code == 404
        assert "'nothing'" in refused.json()["error"]["message"]
