"""`/v1/embeddings` with the real embedder.

Covers `app.embeddings`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from app.embeddings import EmbeddingService, Vectors
from app.generation.admission import Threads
from tests.app.api.test_bad_input import error_of
from tests.samples import embedder

MODEL = "all-MiniLM-L6-v2"
TEXTS = [
    "The key is under the mat.",
    "Don't panic: 42!",
    "Ravello, über alles schön",
    "a",
    "b" * 40,
]
URL = "/v1/embeddings"


def ask(given: Any, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": given, **more}


async def vectors(client: httpx.AsyncClient, given: Any) -> np.ndarray:
    reply = await client.post(URL, json=ask(given))
    assert reply.status_code == 200, reply.text
    data = reply.json()["data"]
    assert [each["index"] for each in data] == list(range(len(data)))
    return np.array([each["embedding"] for each in data])


async def test_texts_have_the_vectors_that_documents_are_found_by(
    client: httpx.AsyncClient,
) -> None:
    several = await vectors(client, TEXTS)
    np.testing.assert_allclose(several, embedder().embed(TEXTS), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(several, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(await vectors(client, TEXTS[0]), several[:1], atol=1e-6)
    mixed = [text * times for times in (1, 100, 1, 1, 90, 30) for text in ("wo ", "ax ")]
    np.testing.assert_allclose(await vectors(client, mixed), embedder().embed(mixed), atol=1e-6)


@pytest.mark.parametrize("special", [True, False])
async def test_token_ids_have_the_vectors_of_their_texts(
    client: httpx.AsyncClient, special: bool
) -> None:
    ids = []
    for text in TEXTS:
        body = {"model": MODEL, "prompt": text, "add_special_tokens": special}
        ids.append((await client.post("/tokenize", json=body)).json()["tokens"])
    texts = await vectors(client, TEXTS)
    np.testing.assert_allclose(await vectors(client, ids), texts, atol=1e-6)
    np.testing.assert_allclose(await vectors(client, ids[0]), texts[:1], atol=1e-6)


async def test_usage_counts_the_tokens(client: httpx.AsyncClient) -> None:
    counts = [
        (await client.post("/tokenize", json={"model": MODEL, "prompt": text})).json()["count"]
        for text in TEXTS
    ]
    reply = (await client.post(URL, json=ask(TEXTS))).json()
    assert reply["usage"] == {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    assert reply["model"] == MODEL


@pytest.mark.parametrize("ids", [True, False])
async def test_an_input_is_never_cut(client: httpx.AsyncClient, ids: bool) -> None:
    word = embedder().tokenizer.encode("word")

    async def embed(length: int) -> httpx.Response:
        long = [word * length] if ids else ["word " * length]
        return await client.post(URL, json=ask(long))

    assert (await embed(254)).status_code == 200  # 256 with the special tokens around
    reply = await embed(255)
    assert reply.status_code == 400
    error = error_of(reply)
    assert (error["param"], error["code"]) == ("input", "context_length_exceeded")
    assert "257" in error["message"]
    assert "256" in error["message"]


def test_the_stock_client(stock: openai.OpenAI) -> None:
    reply = stock.embeddings.create(model=MODEL, input=TEXTS, dimensions=384)  # asks for base64
    np.testing.assert_allclose(
        [each.embedding for each in reply.data], embedder().embed(TEXTS), atol=1e-6
    )
    plain = stock.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format="float")
    np.testing.assert_allclose(plain.data[0].embedding, reply.data[0].embedding, atol=1e-6)
    with pytest.raises(openai.BadRequestError, match="split it"):
        stock.embeddings.create(model=MODEL, input="word " * 300)


async def test_a_client_that_left_is_not_worked_for() -> None:
    chores: list[Future[Vectors]] = []
    begun = asyncio.Event()

    def chore(work: Callable[[], Vectors]) -> Future[Vectors]:
        chores.append(Future())
        begun.set()
        return chores[-1]

    service = EmbeddingService(embedder(), chore, Threads())
    task = asyncio.create_task(service.embed(TEXTS * 10))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(chores) == 1
    assert chores[0].cancelled()


async def test_inputs_are_bounded_in_all(client: httpx.AsyncClient) -> None:
    reply = await client.post(URL, json=ask([[1000] * 200] * 1600))
    assert reply.status_code == 400
    assert "at most 300000 tokens" in error_of(reply)["message"]


def test_a_text_is_cut_without_reading_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    service = EmbeddingService(embedder(), lambda work: Future(), Threads())
    read: list[int] = []
    encode = type(service.tokenizer).encode

    def noted(self: object, text: str) -> list[int]:
        read.append(len(text))
        return encode(service.tokenizer, text)

    monkeypatch.setattr(type(service.tokenizer), "encode", noted)
    cut = service.cut("word " * 800_000)
    assert len(cut) == service.context_length - 2
    assert read[0] < 20_000


async def test_ids_of_another_tokenizer_in_range_are_refused(client: httpx.AsyncClient) -> None:
    own = await client.post("/tokenize", json={"model": MODEL, "prompt": "The embedding of cats."})
    for ids in (own.json()["tokens"], [1996, 4937, 25682], [4667, 1996, 4937]):
        assert (await client.post("/v1/embeddings", json={"input": ids})).status_code == 200
    for other in ([791, 8415, 374, 279, 13], [464, 3797, 21581, 13]):  # cl100k_base, gpt2
        reply = await client.post("/v1/embeddings", json={"input": other})
        assert reply.status_code == 400
        assert "not from the tokenizer" in reply.json()["error"]["message"]
