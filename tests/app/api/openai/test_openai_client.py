"""The stock `openai` client, unpatched, against a real port.

Covers `app.api.openai.completions`, `app.api.openai.logprobs`, `app.api.openai.models`,
`app.api.openai.parameters` and `app.api.openai.replies`.
"""

from __future__ import annotations

import inspect
from typing import Any

import openai
import pytest

from dragon.inference.tokenizer import Message, Tokenizer
from tests import templates
from tests.fakes import FakeGeneration

EMBEDDER = "all-MiniLM-L6-v2"
ASK = [{"role": "user", "content": "Where is the key?"}]


def test_a_base_model_says_that_it_is_one(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    def answered() -> str | None:
        raw = stock.chat.completions.with_raw_response.create(model="dragon-7m", messages=ASK)
        return raw.headers.get("X-Dragon-Chat-Template")

    assert answered() is None
    assert stock.models.retrieve("dragon-7m").chat_template is True
    generation.tokenizer = Tokenizer(templates.backend(None))
    assert answered() == "none"
    assert stock.models.retrieve("dragon-7m").chat_template is False


def test_models(stock: openai.OpenAI) -> None:
    assert [m.id for m in stock.models.list()] == ["dragon-7m", EMBEDDER]
    assert stock.models.retrieve(EMBEDDER).id == EMBEDDER
    assert stock.models.retrieve("dragon-7m").owned_by == "dragon"
    with pytest.raises(openai.NotFoundError) as caught:
        stock.models.retrieve("gpt-5")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


def test_chat_at_once(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    reply = stock.chat.completions.create(
        model="dragon-7m", messages=ASK, temperature=0.5, top_p=0.9
    )
    assert reply.choices[0].message.content == generation.script
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.prompt_tokens == len(generation.requests[0].conversation)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    sampling = generation.requests[0].sampling
    assert (sampling.temperature, sampling.top_p) == (0.5, 0.9)
    whole = reply.model_dump()
    assert not {"dragon", "prompt_token_ids"} & whole.keys()
    assert "token_ids" not in whole["choices"][0]


def test_one_mode_has_one_fingerprint(stock: openai.OpenAI) -> None:
    def fingerprint(**dragon: str) -> str | None:
        body = {"model": "dragon-7m", "messages": ASK, "extra_body": {"dragon": dragon}}
        return stock.chat.completions.create(**body).system_fingerprint

    assert fingerprint() == fingerprint(aggregation="oneway") == "fp_oneway"
    assert fingerprint(aggregation="local") == "fp_local"
    chunks = list(stock.completions.create(model="dragon-7m", prompt="a", stream=True))
    assert {chunk.system_fingerprint for chunk in chunks} == {"fp_oneway"}


def test_token_ids_are_those_of_prompt_and_answer(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    more = {"extra_body": {"return_token_ids": True}, "model": "dragon-7m"}
    asked = generation.tokenizer.conversation([Message("user", ASK[0]["content"])])
    prompt = [*generation.tokenizer.bare_row(), *asked]
    script = generation.tokenizer.encode(generation.script)
    whole = stock.chat.completions.create(messages=ASK, **more)
    assert (whole.prompt_token_ids, whole.choices[0].token_ids) == (prompt, script)
    assert whole.usage.prompt_tokens == len(prompt)
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    chunks = list(stock.chat.completions.create(messages=ASK, stream=True, **more))
    assert chunks[0].prompt_token_ids == prompt
    streamed = [getattr(chunk.choices[0], "token_ids", None) or [] for chunk in chunks]
    assert [token for tokens in streamed for token in tokens] == script
    choice = stock.completions.create(prompt="The key", **more).choices[0]
    assert choice.prompt_token_ids == generation.tokenizer.encode("The key")
    assert choice.token_ids == script
    first, *chunks = stock.completions.create(prompt="The key", stream=True, **more)
    assert first.choices[0].prompt_token_ids == generation.tokenizer.encode("The key")
    streamed = [getattr(chunk.choices[0], "token_ids", None) or [] for chunk in chunks]
    assert [token for tokens in streamed for token in tokens] == script


def test_several_choices_share_the_seed_and_count_the_prompt_once(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    reply = stock.chat.completions.create(model="dragon-7m", messages=ASK, n=6, seed=5)
    assert [c.index for c in reply.choices] == [0, 1, 2, 3, 4, 5]
    assert {r.sampling.seed for r in generation.requests} == {5}
    assert sorted(r.sampling.stream for r in generation.requests) == [0, 1, 2, 3, 4, 5]
    assert reply.usage.prompt_tokens == len(generation.requests[0].conversation)


def test_completions_take_every_kind_of_prompt(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    tokens = generation.tokenizer.encode("The key is")
    for prompt, choices in (
        ("The key is", 1),
        (["The key is", "The cat is"], 2),
        (tokens, 1),
        ([tokens, tokens[:1]], 2),
    ):
        generation.requests.clear()
        reply = stock.completions.create(model="dragon-7m", prompt=prompt)
        assert [c.text for c in reply.choices] == [generation.script] * choices
        assert reply.usage.prompt_tokens == sum(len(r.conversation) for r in generation.requests)
        assert all(r.raw for r in generation.requests)
        assert tuple(tokens) in {r.conversation for r in generation.requests}


def test_completions_streamed(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    chunks = list(
        stock.completions.create(
            model="dragon-7m",
            prompt=["a", "b"],
            n=2,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = ["", "", "", ""]
    for chunk in chunks[:-1]:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [generation.script] * 4
    assert chunks[-1].choices == []
    assert chunks[-1].usage.prompt_tokens == 2


def test_limits_and_stop_strings(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    short = stock.chat.completions.create(model="dragon-7m", messages=ASK, max_completion_tokens=2)
    assert short.choices[0].finish_reason == "length"
    assert short.usage.completion_tokens == 2
    for stop in ("under", ["nothing", "under"]):
        cut = stock.chat.completions.create(model="dragon-7m", messages=ASK, stop=stop)
        assert cut.choices[0].message.content == "The key is "
        assert cut.choices[0].finish_reason == "stop"


def test_our_own_object_only_when_asked_for(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    options = {"dragon": {"aggregation": "local", "top_k": 2, "private": True}}
    reply = stock.chat.completions.create(
        model="dragon-7m", messages=ASK, seed=3, extra_body=options
    )
    ours = reply.model_dump()["dragon"]
    assert ours["aggregation"] == "local"
    assert ours["seed"] == 3
    assert ours["usage"] == {"document_tokens": 7}
    assert ours["choices"][0]["participation"] == [[0, 3]]
    assert ours["choices"][0]["sources"][0]["title"] == "note.txt"
    request = generation.requests[0]
    assert (request.mode, request.top_k, request.private) == ("local", 2, True)

    chunks = list(
        stock.chat.completions.create(
            model="dragon-7m", messages=ASK, stream=True, extra_body={"dragon": {}}
        )
    )
    ours = [c.model_dump()["dragon"] for c in chunks if "dragon" in c.model_dump()]
    assert ours[0]["peer"]["position"] == 3
    assert ours[0]["peer"]["joint"] is False
    assert ours[1]["choices"][0]["participation"] == [[0, 3]]
    assert len(ours) == 2
    assert "dragon" in chunks[-1].model_dump()


def test_seeds_have_64_bits(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    seeds = [-(1 << 63), 0, (1 << 64) - 1]
    for seed in seeds:
        own: dict[str, Any] = {"model": "dragon-7m", "seed": seed, "extra_body": {"dragon": {}}}
        chat = stock.chat.completions.create(messages=ASK, **own)
        text = stock.completions.create(prompt="a", **own)
        assert [reply.model_dump()["dragon"]["seed"] for reply in (chat, text)] == [seed, seed]
    assert [request.sampling.seed for request in generation.requests[::2]] == seeds
    assert [request.sampling.seed for request in generation.requests[1::2]] == seeds


def test_every_parameter_of_the_client_is_known(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    """Each is taken, or refused as what it is: none as a name nobody has heard of."""
    own = {"self", "model", "extra_headers", "extra_query", "extra_body", "timeout"}
    unknown = set()
    for create, needed in (
        (stock.chat.completions.create, {"model": "dragon-7m", "messages": ASK}),
        (stock.completions.create, {"model": "dragon-7m", "prompt": "a"}),
        (stock.embeddings.create, {"model": EMBEDDER, "input": "a"}),
    ):
        for name in inspect.signature(create).parameters.keys() - own - needed.keys():
            try:
                create(**needed, extra_body={name: {"a": [0.5]}})
            except openai.BadRequestError as error:
                unknown |= (
                    {name} if (error.code, error.param) == ("unknown_parameter", name) else set()
                )
    assert unknown == set()


def test_content_parts_and_roles(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    parts = [{"type": "text", "text": "Now"}, {"type": "text", "text": "where is the key?"}]
    stock.chat.completions.create(
        model="dragon-7m",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Hello", "name": "Ann"},
            {"role": "assistant", "content": [{"type": "text", "text": "Good day."}]},
            {"role": "user", "content": parts},
        ],
    )
    assert generation.requests[0].query == "Now\nwhere is the key?"
    prompt = generation.requests[0].prompt_ids(generation.tokenizer)
    assert generation.tokenizer.decode(prompt, special=True) == (
        "<|doc|>Be brief.<|user|>Hello<|assistant|>Good day.<|end|>"
        "<|user|>Now\nwhere is the key?<|assistant|>"
    )


def test_log_probabilities_of_chat(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    asked = {"model": "dragon-7m", "messages": ASK, "logprobs": True, "top_logprobs": 2}
    choice = stock.chat.completions.create(**asked).choices[0]
    assert choice.logprobs is not None
    content = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in content).decode() == generation.script
    assert "".join(token.token for token in content) == generation.script
    assert {token.logprob for token in content} == {-0.25}
    assert [len(token.top_logprobs) for token in content] == [2] * len(content)
    streamed = [
        token
        for chunk in stock.chat.completions.create(**asked, stream=True)
        if chunk.choices[0].logprobs is not None
        for token in chunk.choices[0].logprobs.content
    ]
    assert streamed == content
    assert generation.requests[0].details is not None
    assert generation.requests[0].details.top == 2


def test_log_probabilities_of_completions(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    asked = {"model": "dragon-7m", "prompt": "Where?", "logprobs": 1, "echo": True}
    choice = stock.completions.create(**asked).choices[0]
    assert choice.text == "Where?" + generation.script
    found = choice.logprobs
    assert "".join(found.tokens) == generation.script  # the fake one scores no prompt
    for token, offset in zip(found.tokens, found.text_offset, strict=True):
        assert choice.text[offset : offset + len(token)] == token
    assert [*map(len, found.top_logprobs)] == [1] * len(found.tokens)
    chunks = list(stock.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text
    pieces = [c.choices[0].logprobs for c in chunks if c.choices[0].logprobs is not None]
    assert [offset for piece in pieces for offset in piece.text_offset] == found.text_offset
    details = generation.requests[0].details
    assert details is not None
    assert (details.top, details.prompt) == (1, True)


def test_where_tokens_come_from(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    own = {"extra_body": {"dragon": {"provenance": True}}}
    reply = stock.chat.completions.create(model="dragon-7m", messages=ASK, n=2, **own)
    for choice in reply.model_dump()["dragon"]["choices"]:
        found = choice["provenance"]
        assert "".join(token["text"] for token in found) == generation.script
        assert [token["position"] for token in found] == list(range(len(found)))
        for token in found:
            assert generation.script[token["start"] : token["end"]] == token["text"]
            assert (token["cloud"], token["documents"], token["tv"]) == (0.75, [0.25], 0.125)
    assert reply.choices[0].logprobs is None
    chunks = [
        chunk.model_dump()
        for chunk in stock.chat.completions.create(
            model="dragon-7m", messages=ASK, stream=True, **own
        )
    ]
    pieces = [c["dragon"]["provenance"] for c in chunks if "provenance" in c.get("dragon", {})]
    assert [t for piece in pieces for t in piece["tokens"]] == found
    assert "provenance" not in chunks[-1]["dragon"]["choices"][0]
    plain = stock.chat.completions.create(
        model="dragon-7m", messages=ASK, extra_body={"dragon": {}}
    ).model_dump()
    assert "provenance" not in plain["dragon"]["choices"][0]


def test_the_best_of_several_are_answered_with(
    stock: openai.OpenAI, generation: FakeGeneration
) -> None:
    reply = stock.completions.create(model="dragon-7m", prompt=["a", "b"], n=2, best_of=3)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert len(generation.requests) == 6
    assert all(choice.logprobs is None for choice in reply.choices)
    one = stock.completions.create(model="dragon-7m", prompt="a")
    assert reply.usage.completion_tokens == 6 * one.usage.completion_tokens


def test_a_prompt_without_an_answer(stock: openai.OpenAI, generation: FakeGeneration) -> None:
    reply = stock.completions.create(model="dragon-7m", prompt="Where?", max_tokens=0, echo=True)
    assert reply.choices[0].text == "Where?"
    assert generation.requests[0].max_tokens == 0
