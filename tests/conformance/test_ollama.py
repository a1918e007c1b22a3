"""Ollama's own client, with the device in place of Ollama."""

from __future__ import annotations

import ollama
import pytest

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service

ASK = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def client(device: Service) -> ollama.Client:
    return ollama.Client(device.url, headers={"Authorization": f"Bearer {device.key}"})


def test_chats(client: ollama.Client) -> None:
    assert ANSWER in client.chat(MODEL, ASK, options={"seed": 7}).message.content
    pieces = list(client.chat(MODEL, ASK, options={"seed": 7}, stream=True))
    assert ANSWER in "".join(piece.message.content for piece in pieces)
    assert pieces[-1].done_reason == "stop"


def test_prompts(client: ollama.Client) -> None:
    assert ANSWER in client.generate(MODEL, QUESTION).response
    assert client.generate(MODEL, "Once", raw=True, options={"num_predict": 8}).response


def test_models_and_embeddings(client: ollama.Client) -> None:
    assert [model.model for model in client.list().models] == [MODEL, EMBEDDER]
    assert client.show(MODEL).modelinfo["dragon.context_length"] > 0
    assert [len(each) for each in client.embed(EMBEDDER, ["One", "Two"]).embeddings] == [384, 384]
