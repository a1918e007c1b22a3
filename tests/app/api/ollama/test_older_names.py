"""Ollama's routes of models by the names that older programs use."""

from __future__ import annotations

import httpx


async def test_older_routes_and_names(client: httpx.AsyncClient) -> None:
    shown = await client.post("/api/show", json={"name": "dragon-7m"})
    assert shown.json()["model_info"]["general.basename"] == "dragon-7m"
    assert (await client.get("/api/ps")).json() == (await client.get("/api/tags")).json()
    model = (await client.get("/api/tags")).json()["models"][1]["name"]
    asked = {"model": model, "prompt": "The cat sleeps."}
    (new,) = (
        await client.post("/api/embed", json={"model": model, "input": "The cat sleeps."})
    ).json()["embeddings"]
    assert (await client.post("/api/embeddings", json=asked)).json()["embedding"] == new
