"""The `openai` client."""

from __future__ import annotations

import time
from pathlib import Path

import openai
import pytest

from tests.conformance.conftest import ANSWER, EMBEDDER, MODEL, QUESTION, Service

ASK = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def client(device: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=device.api, api_key=device.key, max_retries=0)


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL, EMBEDDER]
    assert client.models.retrieve(EMBEDDER).id == EMBEDDER


def test_completions(client: openai.OpenAI) -> None:
    whole = client.completions.create(
        model=MODEL, prompt=["The capital of France is", "Once"], n=2, max_tokens=8, seed=3
    )
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.usage.completion_tokens <= 32
    texts = ["", "", "", ""]
    for chunk in client.completions.create(
        model=MODEL,
        prompt=["The capital of France is", "Once"],
        n=2,
        max_tokens=8,
        seed=3,
        stream=True,
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert all(texts)


def test_chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, seed=7)
    assert ANSWER in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_a_streamed_chat(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=ASK,
            temperature=0,
            seed=7,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    *pieces, usage = chunks
    assert pieces[0].choices[0].delta.role == "assistant"
    assert ANSWER in "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert pieces[-1].choices[0].finish_reason == "stop"
    assert usage.choices == []
    assert usage.usage.completion_tokens > 0


def test_the_streaming_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=ASK, temperature=0) as stream:
        for _ in stream:
            pass
        assert ANSWER in stream.get_final_completion().choices[0].message.content


def test_responses(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input=QUESTION, temperature=0)
    assert ANSWER in first.output_text
    assert client.responses.retrieve(first.id).output_text == first.output_text
    with client.responses.stream(
        model=MODEL, input=QUESTION, temperature=0, previous_response_id=first.id
    ) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().status == "completed"
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_embeddings(client: openai.OpenAI) -> None:
    texts = ["The cat sleeps.", "A cat is asleep.", "Interest rates rose."]
    reply = client.embeddings.create(model=EMBEDDER, input=texts)
    a, b, c = (each.embedding for each in reply.data)
    assert sum(x * y for x, y in zip(a, b, strict=True)) > 0.7
    assert sum(x * y for x, y in zip(a, c, strict=True)) < 0.4


def test_files(client: openai.OpenAI, note: Path) -> None:
    uploaded = client.files.create(file=note, purpose="user_data")
    client.files.wait_for_processing(uploaded.id, poll_interval=0.1, max_wait_seconds=60)
    assert uploaded.id in [file.id for file in client.files.list()]
    assert client.files.content(uploaded.id).read() == note.read_bytes()
    reply = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the code of the key safe?"}],
        temperature=0,
        seed=7,
    )
    assert "7731-M" in reply.choices[0].message.content
    assert client.files.delete(uploaded.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(uploaded.id)


def test_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-5", messages=ASK)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "word " * 5000}], stream=True
        )
    assert caught.value.code == "context_length_exceeded"


def test_leaving_a_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=ASK, stream=True)
    next(iter(stream))
    stream.close()
    began = time.monotonic()
    assert client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=1).choices
    assert time.monotonic() - began < 60
