"""`haystack`: its generators and embedders for OpenAI's API."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import Tool
from haystack.utils import Secret

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service

ASK = [ChatMessage.from_system("Be brief."), ChatMessage.from_user(QUESTION)]


def place(service: Service) -> dict[str, Any]:
    return {"api_base_url": service.api, "api_key": Secret.from_token(service.key)}


def test_chats(device: Service) -> None:
    pieces: list[StreamingChunk] = []
    model = OpenAIChatGenerator(
        model=MODEL, generation_kwargs={"temperature": 0, "seed": 7}, **place(device)
    )
    (whole,) = model.run(ASK)["replies"]
    assert ANSWER in whole.text
    (streamed,) = model.run(ASK, streaming_callback=pieces.append)["replies"]
    assert "".join(piece.content for piece in pieces) == streamed.text
    assert ANSWER in streamed.text
    assert streamed.meta["finish_reason"] == "stop"


def test_calls_functions(with_tools: Service) -> None:
    schema = {"type": "object", "properties": {"room": {"enum": ["hall", "attic"]}}}
    tool = Tool("find_key", "Look for the key in a room.", schema, function=str)
    model = OpenAIChatGenerator(
        model="model",
        tools=[tool],
        generation_kwargs={"tool_choice": "required"},
        **place(with_tools),
    )
    question = ChatMessage.from_user("Where is the key?")
    (reply,) = model.run([question])["replies"]
    (call, *_) = reply.tool_calls
    assert call.tool_name == "find_key"
    back = ChatMessage.from_tool("On a hook.", origin=call)
    (reply,) = model.run([question, reply, back])["replies"]
    assert reply.tool_calls


def test_embeds(device: Service) -> None:
    texts = [Document(content="The cat sleeps."), Document(content="Interest rates rose.")]
    embedder = OpenAIDocumentEmbedder(model=EMBEDDER, progress_bar=False, **place(device))
    first, second = embedder.run(texts)["documents"]
    assert len(first.embedding) == len(second.embedding) == 384
    alone = OpenAITextEmbedder(model=EMBEDDER, **place(device)).run("The cat sleeps.")
    assert alone["embedding"] == pytest.approx(first.embedding, abs=1e-5)
