"""`llama-index`: its language model and its embedder for servers like OpenAI's."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service

ASK = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=QUESTION)]


class Place(BaseModel):
    """Where something is."""

    room: Literal["attic", "hall"]


def model(service: Service, name: str) -> OpenAILike:
    return OpenAILike(
        model=name,
        api_base=service.api,
        api_key=service.key,
        is_chat_model=True,
        is_function_calling_model=name != MODEL,
        should_use_structured_outputs=True,
        context_window=2048,
        temperature=0,
        max_tokens=200,
        max_retries=0,
    )


def test_chats(device: Service) -> None:
    llm = model(device, MODEL)
    assert ANSWER in llm.chat(ASK).message.content
    assert ANSWER in "".join(piece.delta or "" for piece in llm.stream_chat(ASK))
    assert ANSWER in asyncio.run(llm.achat(ASK)).message.content
    assert ANSWER in llm.complete(QUESTION).text


def test_calls_functions(with_tools: Service) -> None:
    def find_key(room: str) -> str:
        """Look for the key in a room."""
        return f"It hangs in the {room}."

    llm = model(with_tools, "model")
    tool = FunctionTool.from_defaults(find_key)
    reply = llm.chat_with_tools([tool], "Where is the key?", tool_required=True)
    (call,) = llm.get_tool_calls_from_response(reply)
    assert call.tool_name == "find_key"
    assert list(call.tool_kwargs) == ["room"]


def test_keeps_to_a_type(with_tools: Service) -> None:
    llm = model(with_tools, "model").as_structured_llm(Place)
    assert isinstance(llm.chat(ASK).raw, Place)


def test_embeds(device: Service) -> None:
    embedder = OpenAILikeEmbedding(
        model_name=EMBEDDER, api_base=device.api, api_key=device.key, max_retries=0
    )
    first, second = embedder.get_text_embedding_batch(["The cat sleeps.", "Interest rates rose."])
    assert len(first) == len(second) == 384
    assert embedder.get_query_embedding("The cat sleeps.") == pytest.approx(first, abs=1e-5)
