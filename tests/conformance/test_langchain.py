"""`langchain-openai`."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service


@pytest.fixture(scope="module")
def place(device: Service) -> dict[str, Any]:
    return {"base_url": device.api, "api_key": device.key, "max_retries": 0}


def test_chat(place: dict[str, Any]) -> None:
    chat = ChatOpenAI(model=MODEL, temperature=0, seed=7, max_tokens=64, **place)
    reply = chat.invoke(QUESTION)
    assert ANSWER in reply.content
    assert reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] > 0


def test_a_conversation(place: dict[str, Any]) -> None:
    chat = ChatOpenAI(model=MODEL, temperature=0, stop=["\n"], **place)
    messages = [
        SystemMessage("Be brief."),
        HumanMessage("Hello"),
        AIMessage("Good day."),
        HumanMessage([{"type": "text", "text": QUESTION}]),
    ]
    assert chat.invoke(messages).content


def test_a_streamed_chat(place: dict[str, Any]) -> None:
    chat = ChatOpenAI(model=MODEL, temperature=0, seed=7, stream_usage=True, **place)
    pieces = list(chat.stream(QUESTION))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert ANSWER in whole.content
    assert whole.usage_metadata["output_tokens"] > 0
    assert len(pieces) > 3


async def _asked(chat: ChatOpenAI) -> str:
    return "".join([piece.content async for piece in chat.astream(QUESTION)])


def test_an_asynchronous_chat(place: dict[str, Any]) -> None:
    import asyncio

    assert ANSWER in asyncio.run(_asked(ChatOpenAI(model=MODEL, temperature=0, **place)))


def test_several_choices(place: dict[str, Any]) -> None:
    chat = ChatOpenAI(model=MODEL, n=3, max_tokens=8, **place)
    (generations,) = chat.generate([[HumanMessage(QUESTION)]]).generations
    assert len(generations) == 3


def test_completions(place: dict[str, Any]) -> None:
    model = OpenAI(model=MODEL, temperature=0, max_tokens=8, **place)
    assert model.invoke("The capital of France is")
    assert "".join(model.stream("The capital of France is"))
    assert len(model.batch(["One", "Two"])) == 2


def test_embeddings(place: dict[str, Any]) -> None:
    # Its own counting of tokens fetches OpenAI's vocabularies; others have it turned off.
    model = OpenAIEmbeddings(model=EMBEDDER, check_embedding_ctx_length=False, **place)
    first, second = model.embed_documents(["The cat sleeps.", "Interest rates rose."])
    assert len(first) == len(second) == 384
    assert model.embed_query("The cat sleeps.") == pytest.approx(first, abs=1e-5)
