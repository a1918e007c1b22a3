"""Scores of prompts: of the full mixture, or of the device alone, the same as transformers'.

Covers `peer.serving`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from harness.models import SMALL_MODEL
from harness.network_emulator import Network
from harness.services import wait_joint
from tests.contract.asking import questions
from tests.contract.conftest import Pair
from tests.contract.test_details import BOTH, CLOSE, post, slow_of

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
TOP = 5


def score(pair: Pair, prompt: Any, mode: str, **more: Any) -> dict[str, Any]:
    own = {"aggregation": mode, **more.pop("dragon", {})}
    body = {"model": "dragon-7m", "prompt": prompt, "echo": True, "logprobs": TOP, "seed": 3}
    return post(pair, "/v1/completions", body | {"max_tokens": 0, "dragon": own} | more)


@pytest.mark.parametrize("tokens", [0, 2])
def test_a_prompt_is_scored_by_both_sides(
    exact: Pair, model: LanguageModel, tokenizer: Tokenizer, tokens: int
) -> None:
    exact.network.network = Network(0.02)
    wait_joint(exact.device)
    prompt = f"{BOTH} I know that Nairobi lies in Kenya."
    reply = score(exact, prompt, "coupled", max_tokens=tokens)
    ids = tokenizer.encode(prompt)
    choice = reply["choices"][0]
    assert choice["text"].startswith(prompt)
    found = choice["logprobs"]
    assert len(found["tokens"]) == len(ids) + tokens
    assert "".join(found["tokens"][: len(ids)]) == prompt
    for text, offset in zip(found["tokens"], found["text_offset"], strict=True):
        assert choice["text"][offset : offset + len(text)] == text
    assert found["token_logprobs"][0] is None
    assert found["top_logprobs"][0] is None
    slow = slow_of(model, tokenizer, reply["dragon"]["choices"][0]["sources"], raw=True)
    sides = {source["side"] for source in reply["dragon"]["choices"][0]["sources"]}
    assert sides == {"private", "public"}
    for position in range(1, len(ids)):
        mixed = slow.parts(ids[:1], ids[1:], position - 1, joint=True).sum(0).log()
        expected = float(mixed[ids[position]])
        assert found["token_logprobs"][position] == pytest.approx(expected, abs=CLOSE)
        top = sorted(found["top_logprobs"][position].values(), reverse=True)[:TOP]
        assert top == pytest.approx(torch.topk(mixed, TOP).values.tolist(), abs=CLOSE)


def test_beside_the_answer_as_vllm_has_them(exact: Pair, tokenizer: Tokenizer) -> None:
    prompt, own = "I know that Nairobi lies in Kenya.", {"top_k": 0}
    expected = score(exact, prompt, "local", dragon=own)["choices"][0]["logprobs"]
    asked = {"echo": False, "logprobs": None, "prompt_logprobs": 2, "max_tokens": 1, "n": 2}
    for choice in score(exact, prompt, "local", dragon=own, **asked)["choices"]:
        assert choice["logprobs"] is None
        first, *rest = choice["prompt_logprobs"]
        assert first is None
        ids = tokenizer.encode(prompt)[1:]
        found = [at[str(token)]["logprob"] for at, token in zip(rest, ids, strict=True)]
        assert found == pytest.approx(expected["token_logprobs"][1:], abs=CLOSE)
        assert all({1, 2} <= {each["rank"] for each in at.values()} for at in rest)


@pytest.mark.parametrize("shape", ["text", "tokens"])
def test_alone_without_documents_they_are_those_of_transformers(
    exact: Pair, tokenizer: Tokenizer, shape: str
) -> None:
    prompts = [question.text for question in questions()[:4]]
    ids = [tokenizer.encode(prompt) for prompt in prompts]
    asked = prompts if shape == "text" else ids
    reply = score(exact, asked, "local", max_tokens=1, dragon={"top_k": 0})
    network = AutoModelForCausalLM.from_pretrained(SMALL_MODEL, dtype=torch.float32).eval()
    for choice, prompt in zip(reply["choices"], ids, strict=True):
        with torch.inference_mode():
            logits = network(torch.tensor([prompt])).logits[0, :-1, : tokenizer.vocab_size]
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(prompt[1:])[:, None])
        found = choice["logprobs"]["token_logprobs"]
        assert len(found) == len(prompt) + 1
        assert found[1:-1] == pytest.approx(expected[:, 0].tolist(), abs=1e-4)


def test_a_cloud_lost_meanwhile_scores_nothing_of_the_prompt(exact: Pair) -> None:
    exact.network.network = Network(0.02)
    wait_joint(exact.device)
    prompt = " ".join(["What is the capital of Kenya?"] * 6)
    alone = score(exact, prompt, "local")
    exact.network.limit(1_500)  # the request is up, and some of what it takes to be sent more
    lost = score(exact, prompt, "coupled")
    key = "token_logprobs"
    found, expected = (reply["choices"][0]["logprobs"][key] for reply in (lost, alone))
    assert found[1:] == pytest.approx(expected[1:], abs=CLOSE)
    wait_joint(exact.device)
    joint = score(exact, prompt, "coupled")["choices"][0]["logprobs"][key]
    assert joint[1:] != pytest.approx(expected[1:], abs=CLOSE)


def test_the_choices_of_a_prompt_share_its_scores(exact: Pair) -> None:
    prompts = ["Nairobi is", "The Moon is far away"]
    several = score(exact, prompts, "coupled", max_tokens=2, n=3, best_of=3)["choices"]
    single = score(exact, prompts, "coupled")["choices"]
    for index, choice in enumerate(several):
        expected = single[index // 3]["logprobs"]["token_logprobs"]
        assert choice["logprobs"]["token_logprobs"][: len(expected)] == expected


def test_one_token_has_no_score(exact: Pair) -> None:
    reply = score(exact, [20], "coupled")
    assert reply["choices"][0]["logprobs"]["token_logprobs"] == [None]
    assert reply["usage"]["completion_tokens"] == 0


def test_the_likeliest_of_several_are_answered_with(exact: Pair) -> None:
    body = {"model": "dragon-7m", "prompt": "Nairobi is", "max_tokens": 6, "seed": 9, "logprobs": 0}
    every = post(exact, "/v1/completions", body | {"n": 4})
    best = post(exact, "/v1/completions", body | {"n": 2, "best_of": 4})

    def mean(choice: dict[str, Any]) -> float:
        values = choice["logprobs"]["token_logprobs"]
        return float(sum(values) / len(values))

    ranked = sorted(every["choices"], key=mean, reverse=True)[:2]
    assert [c["text"] for c in best["choices"]] == [c["text"] for c in ranked]
    assert [c["index"] for c in best["choices"]] == [0, 1]
    assert best["usage"] == every["usage"]
