"""Thoughts over HTTP, with a model under Qwen3's template that knows its text by heart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from harness import services
from harness.services import KEY, Service, Setup
from tests import memorised
from tests.contract.asking import posted

pytestmark = pytest.mark.services

THOUGHT, SAID = "A shed has hooks.", "It hangs behind the mower."
ASK: list[Any] = [{"role": "user", "content": "Where is the key of the shed?"}]
NO_THOUGHT = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A device alone, whose model thinks before it answers, always the same."""
    folder = tmp_path_factory.mktemp("thinking")
    text = f"<think>\n{THOUGHT}\n</think>\n\n{SAID}"
    model = memorised.save_thinking(folder / "model", text)
    setup = Setup(folder, {"DRAGON_MODEL": str(model), "DRAGON_CLOUD": "never"})
    with services.device(setup, services.free_port()) as running:
        yield running


@pytest.fixture
def stock(device: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{device.url}/v1", api_key=KEY, max_retries=0)


def test_thoughts_stand_beside_the_text(stock: openai.OpenAI) -> None:
    (choice,) = stock.chat.completions.create(model="model", messages=ASK, temperature=0).choices
    assert (choice.message.content, choice.finish_reason) == (SAID, "stop")
    assert choice.message.model_extra == {"reasoning_content": THOUGHT}
    thought, said = "", ""
    for chunk in stock.chat.completions.create(
        model="model", messages=ASK, temperature=0, stream=True
    ):
        delta = chunk.choices[0].delta
        thought += (delta.model_extra or {}).get("reasoning_content", "")
        said += delta.content or ""
    assert (thought, said) == (THOUGHT, SAID)


@pytest.mark.parametrize(
    "off",
    [
        {"reasoning_effort": "none"},
        {"enable_thinking": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
def test_they_are_switched_off(device: Service, off: dict[str, Any]) -> None:
    asked = {"model": "model", "messages": ASK, "temperature": 0, "return_token_ids": True}
    reply = posted(device, "/v1/chat/completions", **asked, **off)
    prompt = posted(device, "/detokenize", tokens=reply["prompt_token_ids"])["prompt"]
    assert prompt.endswith(NO_THOUGHT)
    message = reply["choices"][0]["message"]
    assert (message["content"], message.get("reasoning_content")) == (SAID, None)


def test_earlier_thoughts_are_left_out_of_the_prompt(device: Service) -> None:
    before = {"role": "assistant", "content": SAID, "reasoning_content": "Hooks again."}
    chat = [*ASK, before, {"role": "user", "content": "Which mower?"}]
    tokens = posted(device, "/tokenize", messages=chat)["tokens"]
    prompt = posted(device, "/detokenize", tokens=tokens)["prompt"]
    assert SAID in prompt
    assert "Hooks again." not in prompt
