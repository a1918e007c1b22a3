"""`litellm`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import litellm
import pytest

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service

ASK = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def place(device: Service) -> dict[str, Any]:
    return {"api_base": device.api, "api_key": device.key, "num_retries": 0}


def test_chat(place: dict[str, Any]) -> None:
    reply = litellm.completion(f"openai/{MODEL}", ASK, temperature=0, seed=7, **place)
    assert ANSWER in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.completion_tokens > 0


def test_a_streamed_chat(place: dict[str, Any]) -> None:
    chunks = list(
        litellm.completion(
            f"openai/{MODEL}",
            ASK,
            temperature=0,
            seed=7,
            stream=True,
            stream_options={"include_usage": True},
            **place,
        )
    )
    assert ANSWER in "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    rebuilt = litellm.stream_chunk_builder(chunks)
    assert ANSWER in rebuilt.choices[0].message.content
    assert rebuilt.usage.completion_tokens > 0


def test_completions(place: dict[str, Any]) -> None:
    model = f"text-completion-openai/{MODEL}"
    reply = litellm.text_completion(
        prompt="The capital of France is", model=model, max_tokens=8, **place
    )
    assert reply.choices[0].text
    pieces = litellm.text_completion(prompt="Once", model=model, max_tokens=8, stream=True, **place)
    assert "".join(piece.choices[0].text or "" for piece in pieces)


def test_embeddings(place: dict[str, Any]) -> None:
    for encoding in ("float", "base64"):
        reply = litellm.embedding(
            f"openai/{EMBEDDER}", ["One", "Two"], encoding_format=encoding, **place
        )
        assert len(reply.data) == 2
        assert reply.usage.prompt_tokens > 0


def test_files(device: Service, note: Path) -> None:
    place = {"custom_llm_provider": "openai", "api_base": device.api, "api_key": device.key}
    with note.open("rb") as file:
        uploaded = litellm.create_file(file=file, purpose="user_data", **place)
    assert uploaded.id in [file.id for file in litellm.file_list(**place)]
    assert litellm.file_retrieve(uploaded.id, **place).filename == note.name
    assert litellm.file_content(uploaded.id, **place).content == note.read_bytes()
    assert litellm.file_delete(uploaded.id, **place).deleted


def test_a_prompt_over_the_context_has_its_own_error(place: dict[str, Any]) -> None:
    long = [{"role": "user", "content": "word " * 5000}]
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(f"openai/{MODEL}", long, **place)
