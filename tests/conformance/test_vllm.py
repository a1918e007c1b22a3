"""What vLLM's own tests ask of completions, chats and tokens, of a real model."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from dragon.models import EMBEDDED_WRITER
from tests.conformance.conftest import WRITER, Service

PROMPT = "Hello, my name is"
ASK = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is 1+1?"},
]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "skills": {"type": "array", "items": {"enum": ["C", "Rust"]}, "maxItems": 3},
    },
    "required": ["name", "age", "skills"],
    "additionalProperties": False,
}
ADDRESS = r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.){3}(25[0-5]|(2[0-4]|1\d|[1-9]|)\d)"
LANGUAGES = ["Python", "Rust", "C++", "PHP"]
SQL = """
start: "SELECT " column " FROM " table
column: "col_1" | "col_2"
table: "table_1" | "table_2"
"""
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def client(writer: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=writer.api, api_key=writer.key, max_retries=0)


@pytest.fixture(scope="module")
def http(writer: Service) -> httpx.Client:
    return httpx.Client(
        base_url=writer.url, headers={"Authorization": f"Bearer {writer.key}"}, timeout=120
    )


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerBase:
    """The tokenizer that transformers makes of the same file."""
    place = EMBEDDED_WRITER
    return AutoTokenizer.from_pretrained(str(place.parent), gguf_file=place.name)


@pytest.fixture(scope="module", params=["text", "ids"])
def prompt(request: pytest.FixtureRequest, reference: PreTrainedTokenizerBase) -> Any:
    return PROMPT if request.param == "text" else reference.encode(PROMPT)


def completed(client: openai.OpenAI, prompt: Any = PROMPT, **more: Any) -> Any:
    asked = {"model": WRITER, "prompt": prompt, "max_tokens": 5, "temperature": 0, **more}
    return client.completions.create(**asked)


def chatted(client: openai.OpenAI, **more: Any) -> Any:
    asked = {"model": WRITER, "messages": ASK, "max_tokens": 10, "temperature": 0, **more}
    return client.chat.completions.create(**asked)


def test_a_completion(client: openai.OpenAI, prompt: Any) -> None:
    reply = completed(client, prompt)
    (choice,) = reply.choices
    assert choice.text == completed(client).choices[0].text
    assert choice.finish_reason == "length"
    assert choice.logprobs is None
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 5, 10)


def test_ids_that_the_model_does_not_have(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        completed(client, [1, 2, 10**6])


@pytest.mark.parametrize(("asked", "least", "most"), [(0, 1, 1), (1, 1, 2), (5, 5, 6)])
def test_logprobs_of_a_completion(
    client: openai.OpenAI, prompt: Any, asked: int, least: int, most: int
) -> None:
    (choice,) = completed(client, prompt, logprobs=asked).choices
    assert "".join(choice.logprobs.tokens) == choice.text
    assert all(value <= 0 for value in choice.logprobs.token_logprobs)
    assert all(least <= len(top) <= most for top in choice.logprobs.top_logprobs)


@pytest.mark.parametrize("stream", [False, True])
def test_too_many_logprobs(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError):
        completed(client, logprobs=21, stream=stream)
    with pytest.raises(openai.BadRequestError):
        chatted(client, logprobs=True, top_logprobs=21, stream=stream)
    assert completed(client).choices[0].text


@pytest.mark.parametrize("asked", [0, 1])
def test_logprobs_of_a_prompt(client: openai.OpenAI, prompt: Any, asked: int) -> None:
    (choice,) = completed(client, prompt, echo=True, logprobs=asked).choices
    assert choice.text.startswith(PROMPT)
    scored = choice.logprobs
    assert len(scored.tokens) == len(scored.text_offset) == 10
    assert scored.token_logprobs[0] is None
    assert scored.top_logprobs[0] is None
    assert all(1 <= len(top) <= asked + 1 for top in scored.top_logprobs[1:])


@pytest.mark.parametrize("echo", [False, True])
def test_a_streamed_completion(client: openai.OpenAI, echo: bool) -> None:
    whole = completed(client, echo=echo).choices[0].text
    chunks = list(completed(client, echo=echo, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole
    assert whole.startswith(PROMPT) == echo
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["length"]


def test_streamed_side_by_side(client: openai.OpenAI) -> None:
    ends, texts = [], ["", "", ""]
    for chunk in completed(client, n=3, temperature=1, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        ends += [choice.index] if choice.finish_reason else []
    assert sorted(ends) == [0, 1, 2]
    assert all(texts)


@pytest.mark.parametrize("ask", [completed, chatted])
@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("in_each", [False, True])
def test_usage_in_streams(client: openai.OpenAI, ask: Any, at_the_end: bool, in_each: bool) -> None:
    options = {"include_usage": at_the_end, "continuous_usage_stats": in_each}
    chunks = list(ask(client, stream=True, stream_options=options))
    if at_the_end:
        *chunks, last = chunks
        assert last.choices == []
        assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
        assert last.usage.completion_tokens > 0
    counts = [chunk.usage and chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts) if in_each and at_the_end else set(counts) == {None}


@pytest.mark.parametrize("ask", [completed, chatted])
@pytest.mark.parametrize("value", [None, True])
def test_stream_options_are_for_streams(client: openai.OpenAI, ask: Any, value: Any) -> None:
    with pytest.raises(openai.BadRequestError):
        ask(client, stream=False, stream_options={"include_usage": value})


def test_several_prompts(client: openai.OpenAI, prompt: Any) -> None:
    first, second = completed(client, [prompt, prompt]).choices
    assert first.text == second.text
    texts = ["", ""]
    for chunk in completed(client, [prompt, prompt], stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [first.text, second.text]


def test_biases(client: openai.OpenAI, reference: PreTrainedTokenizerBase) -> None:
    (token,) = reference.encode(" blue")
    assert completed(client, logit_bias={str(token): 100}).choices[0].text == 5 * " blue"
    usual = completed(client).choices[0].text
    banned = {str(each): -100 for each in reference.encode(usual)}
    found = completed(client, logit_bias=banned).choices[0].text
    assert not set(reference.encode(usual)) & set(reference.encode(found))


def test_allowed_tokens(client: openai.OpenAI, reference: PreTrainedTokenizerBase) -> None:
    allowed = [token for word in (" red", " blue") for token in reference.encode(word)]
    reply = completed(client, max_tokens=3, extra_body={"allowed_token_ids": allowed})
    assert set(reference.encode(reply.choices[0].text)) <= set(allowed)


def fits(text: str, guide: dict[str, Any]) -> bool:
    match guide:
        case {"guided_json": schema}:
            jsonschema.validate(json.loads(text), schema)
            return True
        case {"guided_regex": pattern}:
            return bool(re.fullmatch(pattern, text))
        case {"guided_choice": choices}:
            return text in choices
    return bool(re.fullmatch("SELECT col_[12] FROM table_[12]", text))


@pytest.mark.parametrize("kind", ["completions", "chats"])
@pytest.mark.parametrize(
    "guide",
    [
        {"guided_json": SCHEMA},
        {"guided_regex": ADDRESS},
        {"guided_choice": LANGUAGES},
        {"guided_grammar": SQL},
    ],
    ids=lambda guide: next(iter(guide)),
)
def test_guided_answers(client: openai.OpenAI, kind: str, guide: dict[str, Any]) -> None:
    how = {"n": 3, "temperature": 1, "max_tokens": 200, "extra_body": guide}
    if kind == "completions":
        texts = [choice.text for choice in completed(client, "An example:", **how).choices]
    else:
        texts = [choice.message.content for choice in chatted(client, **how).choices]
    assert len(texts) == 3
    assert all(fits(text, guide) for text in texts)


@pytest.mark.parametrize("ask", [completed, chatted])
@pytest.mark.parametrize(
    "guide",
    [{"guided_json": 42}, {"guided_regex": {"1": "a"}}, {"guided_regex": "a", "guided_json": {}}],
)
def test_guides_that_are_none(client: openai.OpenAI, ask: Any, guide: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        ask(client, extra_body=guide)


@pytest.mark.parametrize("asked", [0, 5])
def test_logprobs_of_a_chat(client: openai.OpenAI, asked: int) -> None:
    assert chatted(client, logprobs=False).choices[0].logprobs is None
    guide = {"guided_choice": LANGUAGES}
    for more in ({}, {"extra_body": guide}):
        (choice,) = chatted(client, logprobs=True, top_logprobs=asked, **more).choices
        assert "".join(each.token for each in choice.logprobs.content) == choice.message.content
        for each in choice.logprobs.content:
            assert len(each.top_logprobs) == asked
            assert all(top.logprob >= -9999 for top in each.top_logprobs)


def test_a_conversation(client: openai.OpenAI, reference: PreTrainedTokenizerBase) -> None:
    first = chatted(client)
    rendered = reference.apply_chat_template(ASK, tokenize=False, add_generation_prompt=True)
    assert first.usage.prompt_tokens == len(reference.encode(rendered))
    said = {"role": "assistant", "content": first.choices[0].message.content}
    more = {"role": "user", "content": "Express your result in JSON."}
    assert chatted(client, messages=[*ASK, said, more]).choices[0].message.content


def test_a_streamed_chat(client: openai.OpenAI) -> None:
    (whole,) = chatted(client).choices
    chunks = [chunk.choices[0] for chunk in chatted(client, stream=True)]
    assert {chunk.delta.role for chunk in chunks} == {"assistant", None}
    assert "".join(chunk.delta.content or "" for chunk in chunks) == whole.message.content
    assert [c.finish_reason for c in chunks if c.finish_reason] == [whole.finish_reason]


@pytest.mark.parametrize(
    "form",
    [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "person"}}],
)
def test_formats(client: openai.OpenAI, form: dict[str, Any]) -> None:
    if "json_schema" in form:
        form["json_schema"]["schema"] = SCHEMA
    # Without a bound a small model may write spaces for ever.
    reply = chatted(client, response_format=form, max_tokens=200, logit_bias={"216": -100})
    assert isinstance(json.loads(reply.choices[0].message.content), dict)


def test_contents_in_parts_and_fields_that_nobody_knows(client: openai.OpenAI) -> None:
    parts = [{"type": "text", "text": ASK[1]["content"]}]
    strange = [ASK[0], {"role": "user", "content": parts, "extra_field": "0"}]
    usual, other = chatted(client), chatted(client, messages=strange)
    assert other.choices[0].message.content == usual.choices[0].message.content


@pytest.mark.parametrize("seed", [-(2**63) - 1, 2**64])
def test_seeds_of_too_many_bits(client: openai.OpenAI, seed: int) -> None:
    with pytest.raises(openai.BadRequestError, match=r"than or equal|less than"):
        chatted(client, seed=seed)


def test_no_model_is_named(http: httpx.Client) -> None:
    reply = http.post("/v1/chat/completions", json={"messages": ASK, "max_tokens": 2}).json()
    assert reply["model"] == WRITER
    assert reply["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        {"tools": [TOOL], "tool_choice": {}},
    ],
)
def test_choices_of_tools_that_are_not_there(client: openai.OpenAI, more: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        chatted(client, **more)


def test_tokens_of_a_prompt(http: httpx.Client, reference: PreTrainedTokenizerBase) -> None:
    text = "A test of <|im_start|> tokens: naïve 日本 🦊"
    ids = reference.encode(text)
    for special in (False, True):
        asked = {"prompt": text, "add_special_tokens": special}
        reply = http.post("/tokenize", json=asked).json()
        assert reply == {
            "count": len(ids),
            "max_model_len": 8192,
            "tokens": ids,
            "token_strs": None,
        }
    reply = http.post("/tokenize", json={"prompt": text, "return_token_strs": True}).json()
    assert reply["token_strs"] == reference.convert_ids_to_tokens(ids)
    assert http.post("/detokenize", json={"tokens": ids}).json() == {"prompt": text}


@pytest.mark.parametrize(("begun", "continued"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("tools", [None, [TOOL]])
def test_tokens_of_a_chat(
    http: httpx.Client,
    reference: PreTrainedTokenizerBase,
    begun: bool,
    continued: bool,
    tools: list[dict[str, Any]] | None,
) -> None:
    chat = [*ASK, *([{"role": "assistant", "content": "Sure,"}] if continued else [])]
    how = {"add_generation_prompt": begun, "continue_final_message": continued, "tools": tools}
    rendered = reference.apply_chat_template(chat, tokenize=False, **how)
    reply = http.post("/tokenize", json={"messages": chat, **how}).json()
    assert reply["tokens"] == reference.encode(rendered)
