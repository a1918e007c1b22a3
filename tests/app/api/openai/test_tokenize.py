"""`/tokenize` and `/detokenize` agree with what completions and chats are run on.

Covers `app.generation.prompts`.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from app.generation.prompts import text_prompt
from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL
from tests.app.api.test_bad_input import error_of
from tests.fakes import FakeGeneration

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Where is the key?"}]},
]
TEXT = "Schlüssel 🔑 under the <|end|> mat"


async def tokenized(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    reply = await client.post("/tokenize", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_prompt(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    reply = await tokenized(client, model="dragon-7m", prompt=TEXT)
    assert reply["count"] == len(reply["tokens"])
    assert reply["max_model_len"] == generation.context_length
    assert 3 in reply["tokens"], "the special token, by its name"
    await client.post("/v1/completions", json={"model": "dragon-7m", "prompt": TEXT})
    assert list(generation.requests[0].conversation) == reply["tokens"]
    again = await client.post("/detokenize", json={"tokens": reply["tokens"]})
    assert again.json() == {"prompt": TEXT}


async def test_calls_are_for_models_with_tools(client: httpx.AsyncClient) -> None:
    turns = [*MESSAGES, {"role": "tool", "content": "In a box."}]
    reply = await client.post("/tokenize", json={"messages": turns})
    assert error_of(reply)["param"] == "messages"
    tool = {"type": "function", "function": {"name": "find_key"}}
    asked: dict[str, Any] = {"messages": MESSAGES, "tools": [tool]}
    reply = await client.post("/tokenize", json=asked)
    assert error_of(reply)["param"] == "tools"
    assert await tokenized(client, **asked, tool_choice="none")


async def test_a_chat(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    reply = await tokenized(client, messages=MESSAGES)
    chat = {"model": "dragon-7m", "messages": MESSAGES}
    usage = (await client.post("/v1/chat/completions", json=chat)).json()["usage"]
    assert generation.requests[0].prompt_ids(generation.tokenizer) == reply["tokens"]
    assert usage["prompt_tokens"] == reply["count"]
    text = await client.post("/detokenize", json={"tokens": reply["tokens"]})
    assert text.json()["prompt"] == "<|doc|>Be brief.<|user|>Where is the key?<|assistant|>"


async def test_the_embedder_has_a_vocabulary_of_its_own(client: httpx.AsyncClient) -> None:
    embedder = {"model": "all-MiniLM-L6-v2"}
    plain = await tokenized(client, **embedder, prompt="hello there", add_special_tokens=False)
    framed = await tokenized(client, **embedder, prompt="hello there")
    assert framed["tokens"][1:-1] == plain["tokens"]
    assert framed["max_model_len"] == 256
    text = await client.post("/detokenize", json=embedder | {"tokens": framed["tokens"]})
    assert text.json()["prompt"] == "[CLS] hello there [SEP]"
    reply = await client.post("/tokenize", json=embedder | {"messages": MESSAGES})
    assert error_of(reply)["param"] == "messages"


async def test_nothing_is_nothing(client: httpx.AsyncClient) -> None:
    assert (await tokenized(client, prompt=""))["tokens"] == []
    assert (await client.post("/detokenize", json={"tokens": []})).json() == {"prompt": ""}


@pytest.fixture
def beginning() -> Tokenizer:
    """A tokenizer whose model wants token 0 before every text."""
    backend = AutoTokenizer.from_pretrained(SMALL_MODEL)
    backend.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|doc|> $A", special_tokens=[("<|doc|>", 0)]
    )
    return Tokenizer(backend)


async def test_the_token_before_every_text_never_stands_twice(beginning: Tokenizer) -> None:
    assert beginning.framed([7, 8]) == [0, 7, 8]
    assert beginning.bare_row(raw=True) == [0]
    generation = FakeGeneration(beginning)
    for ids in ([7, 8], [0, 7, 8]):
        assert (await text_prompt(generation, ids)).conversation == (7, 8)
    assert Tokenizer.load(SMALL_MODEL).framed([7, 8]) == [7, 8]


async def test_names_of_tokens_and_how_a_chat_ends(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    reply = await tokenized(client, prompt="a key", return_token_strs=True)
    assert len(reply["token_strs"]) == reply["count"]
    turns = [*MESSAGES, {"role": "assistant", "content": "It is"}]
    for more, end in (
        ({}, "<|assistant|>It is"),
        ({"add_generation_prompt": True}, "<|assistant|>It is<|end|><|assistant|>"),
        ({"add_generation_prompt": False}, "<|assistant|>It is"),
        ({"continue_final_message": False}, "<|assistant|>It is<|end|><|assistant|>"),
    ):
        tokens = (await tokenized(client, messages=turns, **more))["tokens"]
        assert generation.tokenizer.decode(tokens, special=True).endswith("?" + end)
    last = {"messages": MESSAGES, "continue_final_message": True}
    reply = await client.post("/tokenize", json=last)
    assert error_of(reply)["param"] == "continue_final_message"


async def test_a_last_turn_of_the_assistants_is_gone_on_with(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    turns = [*MESSAGES, {"role": "assistant", "content": "Hello, my name is"}]
    reply = await client.post("/v1/chat/completions", json={"messages": turns})
    assert reply.status_code == 200
    (request,) = generation.requests
    prompt = generation.tokenizer.decode(request.conversation, special=True)
    assert prompt.endswith("<|assistant|>Hello, my name is")
    assert request.query == "Where is the key?"
