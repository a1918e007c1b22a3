"""A `suffix`: what stands between it and the prompt is written, by a model with marks for that."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL
from tests.app.api.test_bad_input import CONTINUE, TEXT
from tests.fakes import FakeGeneration

NAMES = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|endoftext|>"]


@pytest.fixture
def filling(generation: FakeGeneration) -> FakeGeneration:
    """A model that fills in, and knows no end but that."""
    backend = AutoTokenizer.from_pretrained(SMALL_MODEL)
    backend.add_special_tokens({"additional_special_tokens": NAMES})
    generation.tokenizer = Tokenizer(backend)
    return generation


def prompt(generation: FakeGeneration) -> str:
    request = generation.requests[-1]
    return generation.tokenizer.decode(request.conversation, special=True)


async def test_what_the_model_reads(client: httpx.AsyncClient, filling: FakeGeneration) -> None:
    marked = "<|fim_prefix|>The key<|fim_suffix|> the mat.<|fim_middle|>"
    reply = await client.post(TEXT, json=CONTINUE | {"suffix": " the mat."})
    assert reply.status_code == 200, reply.text
    assert prompt(filling) == marked
    request = filling.requests[-1]
    assert (request.query, request.raw) == ("The key", True)
    assert reply.json()["usage"]["prompt_tokens"] == len(request.conversation)
    ids = filling.tokenizer.read("The key")
    await client.post(TEXT, json=CONTINUE | {"prompt": ids, "suffix": " the mat."})
    assert prompt(filling) == marked
    await client.post(TEXT, json=CONTINUE | {"prompt": "", "suffix": " the mat."})
    assert prompt(filling) == "<|fim_prefix|><|fim_suffix|> the mat.<|fim_middle|>"
    assert filling.requests[-1].query == " the mat."


async def test_where_it_ends(client: httpx.AsyncClient, filling: FakeGeneration) -> None:
    (end,) = filling.tokenizer.read("<|endoftext|>")
    await client.post(TEXT, json=CONTINUE | {"suffix": " the mat.", "stop_token_ids": [7]})
    assert filling.requests[-1].stop_tokens == {7, end}
    await client.post(TEXT, json=CONTINUE)
    assert filling.requests[-1].stop_tokens == frozenset()


async def test_ollamas_way(client: httpx.AsyncClient, filling: FakeGeneration) -> None:
    asked: dict[str, Any] = {"model": "dragon-7m", "stream": False, "suffix": " the mat."}
    for text in ("The key", ""):
        reply = await client.post("/api/generate", json=asked | {"prompt": text})
        assert reply.json()["response"] == filling.script
        assert prompt(filling) == f"<|fim_prefix|>{text}<|fim_suffix|> the mat.<|fim_middle|>"
