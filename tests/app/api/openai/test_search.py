"""`/v1/rerank` with the real reranker.

Covers `app.reranking`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.reranking import RerankingService

QUERY = "What is the code of the key safe?"
TEXTS = [
    "The ferry to Capri leaves at nine.",
    "The key safe code is 7731-M and it hangs left of the door.",
    "Bring towels. " * 60 + "The code of the key safe is 7731-M. " + "Close the shutters. " * 60,
    "",
]


async def ranked(client: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    body = {"model": "reranker", "query": QUERY, "documents": TEXTS, **more}
    reply = await client.post("/v1/rerank", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def test_what_answers_comes_first(client: httpx.AsyncClient) -> None:
    results = (await ranked(client))["results"]
    assert [each["index"] for each in results[:2]] in ([1, 2], [2, 1])  # also deep in a long text
    scores = [each["relevance_score"] for each in results]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] > 2 * scores[2]
    assert (results[3]["index"], scores[3]) == (3, 0.0)
    assert "document" not in results[0]


async def test_only_so_many_with_their_texts(client: httpx.AsyncClient) -> None:
    documents = [TEXTS[0], {"text": TEXTS[1]}]
    reply = await ranked(client, documents=documents, top_n=1, return_documents=True)
    (best,) = reply["results"]
    assert (best["index"], best["document"]) == (1, {"text": TEXTS[1]})


async def test_what_is_unknown_is_taken_and_named(client: httpx.AsyncClient) -> None:
    body = {"query": QUERY, "documents": TEXTS[:2], "priority": 1, "zebra": 1}
    reply = await client.post("/v1/rerank", json=body)
    assert reply.json()["model"] == "reranker"
    assert reply.headers["x-dragon-ignored"] == "zebra"


async def test_a_caller_has_one_ranking_at_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = most = 0

    async def counted(_: RerankingService, query: str, texts: list[str]) -> list[float]:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1
        return [0.0] * len(texts)

    monkeypatch.setattr(RerankingService, "scores", counted)
    await asyncio.gather(*(ranked(client) for _ in range(3)))
    assert most == 1
