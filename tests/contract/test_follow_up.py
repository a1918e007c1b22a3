"""Questions that need both sides: one answer in two passes, the same on any network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.hops import OpenQuestion
from dragon.retrieval.lexical import coverage
from dragon.sampling.params import Mode, Sampling
from harness import reference, services
from harness.network_emulator import Network, relay
from harness.reference import Passage
from harness.services import Service, Setup
from tests.contract.asking import Ask, Reply, ask_all, upload
from tests.contract.conftest import Pair

pytestmark = [pytest.mark.services, pytest.mark.timeout(1500)]

NOTE = "Grandfather was born in Latvia in 1931."
QUESTION = "What is the capital of the country my grandfather was born in?"
CAPITAL = "The Latvian capital, Riga, stands on the Daugava."
BOTH = f"{NOTE} {CAPITAL}"
NAIROBI = "Nairobi is the Kenyan capital."
SAFE = "The key safe code is 7731-M and it hangs left of the door."
TOKENS, SEED = 48, 5


@pytest.fixture(scope="module")
def exact_services(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    setup = Setup(tmp_path_factory.mktemp("follow-up"), {"DRAGON_EXACT": "true"})
    with (
        services.peer(setup, corpus) as peer,
        relay(peer.port, Network()) as network,
        services.device(setup, network.port) as device,
    ):
        upload(device, "grandfather.md", NOTE)
        upload(device, "safe.md", SAFE)
        services.wait_joint(device)
        yield Pair(device, peer, network)


def passages(reply: Reply, side: str, hop: int) -> list[Passage]:
    return [
        Passage(s["text"], s["score"])
        for s in reply.sources
        if (s["side"], s["hop"]) == (side, hop)
    ]


def expected(
    model: LanguageModel, tokenizer: Tokenizer, ask: Ask, reply: Reply
) -> tuple[str, list[int]]:
    """Text and hops of the sequential reference: a pass, the decision, another pass."""
    sampling, mode = Sampling(ask.temperature, seed=ask.seed), Mode(ask.mode)
    question, of_first = ask.question, [passages(reply, side, 0) for side in ("private", "public")]
    first = reference.write(model, tokenizer, question, *of_first, sampling, ask.tokens, mode)
    text = tokenizer.decode([token for token in first if token not in tokenizer.end_ids])
    side, source = max(
        ((side, found) for side, own in enumerate(of_first) for found in own),
        key=lambda found: coverage(text, found[1].text),
    )
    of_second = [passages(reply, side, 1) for side in ("private", "public")]
    after = OpenQuestion(question, text, source.text, own=bool(of_second[0]))
    continuing = of_second[0] + of_second[1] if after.left else of_second[1 - side]
    goes_on = [after.answered_by(found.text, found.score) for found in continuing]
    assert any(goes_on) is bool(reply.hops)
    if first[-1] not in tokenizer.end_ids or not reply.hops:
        return text, []
    second = reference.write(
        model,
        tokenizer,
        question,
        *of_second,
        sampling,
        ask.tokens - len(first),
        Mode.LOCAL if of_second[0] else mode,  # the device goes on in private
        written=first,
        left=after.query if after.left else None,
    )
    more = tokenizer.decode([token for token in second if token not in tokenizer.end_ids])
    return f"{text} {more}", [len(first)]


@pytest.mark.parametrize(
    "mode", [Mode.COUPLED, Mode.TOKENWISE, Mode.SPECULATIVE, Mode.SEQUENCEWISE]
)
def test_the_text_is_that_of_the_sequential_reference_on_any_network(
    exact: Pair, mode: Mode, model: LanguageModel, tokenizer: Tokenizer
) -> None:
    asks = [Ask(QUESTION, mode, t, SEED, TOKENS, hops=1) for t in (0.0, 1.0)]
    replies = []
    for rtt_ms in (0, 100):
        exact.network.network = Network(rtt_ms / 1000)
        replies.append(ask_all(exact.device, asks))
    for ask, *pair in zip(asks, *replies, strict=True):
        for reply in pair:
            assert (reply.text, reply.hops) == expected(model, tokenizer, ask, reply)
            assert reply.stats["passes"] == 1 + len(reply.hops)
            assert reply.participation == [[0, reply.tokens]]
    assert replies[0][0].text == BOTH


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("what is the capital of Kenya, and what is the code of the key safe?", "public private"),
        ("what is the code of my key safe, and what is the capital of Latvia?", "private public"),
        ("what is the code of my key safe, and where was Grandfather born?", "private private"),
        ("what is the capital of Latvia, and what is the capital of Kenya?", "public public"),
    ],
)
def test_each_of_joined_questions_is_answered(
    exact: Pair, question: str, sides: str, model: LanguageModel, tokenizer: Tokenizer
) -> None:
    asks = [Ask(question, Mode.COUPLED, t, SEED, TOKENS, hops=1) for t in (0.0, 1.0)]
    for rtt_ms in (0, 100):
        exact.network.network = Network(rtt_ms / 1000)
        for ask, reply in zip(asks, ask_all(exact.device, asks), strict=True):
            assert (reply.text, reply.hops) == expected(model, tokenizer, ask, reply)
    said = {"key safe": SAFE, "born": NOTE, "Latvia": CAPITAL, "Kenya": NAIROBI}
    expected_text = {text for words, text in said.items() if words in question}
    for dragon in ({}, {"cloud": "when_needed"}, *[{"private": True}] * ("public" not in sides)):
        reply = post(exact.device, messages=[{"role": "user", "content": question}], dragon=dragon)
        own = reply["dragon"]["choices"][0]
        text = reply["choices"][0]["message"]["content"]
        assert set(re.split(r"(?<=[.]) (?=[A-Z])", text)) == expected_text
        assert {s["side"] for s in own["sources"] if s["text"] in text} == set(sides.split())
        if "public" not in sides and dragon:
            assert own["stats"]["sent_frames"] == 0


def post(device: Service, **more: Any) -> dict[str, Any]:
    body = {
        "model": "dragon-7m",
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "seed": SEED,
        "dragon": {"hops": 1},
    }
    url = f"{device.url}/v1/chat/completions"
    reply = httpx.post(url, headers=device.headers, json=body | more, timeout=300)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_details_and_sources_are_those_of_the_whole_answer(exact: Pair) -> None:
    reply = post(exact.device, logprobs=True, top_logprobs=2, dragon={"provenance": True})
    choice, own = reply["choices"][0], reply["dragon"]["choices"][0]
    text = choice["message"]["content"]
    assert text == BOTH
    assert b"".join(bytes(e["bytes"]) for e in choice["logprobs"]["content"]).decode() == text
    provenance = own["provenance"]
    count = reply["usage"]["completion_tokens"]
    assert [token["position"] for token in provenance] == list(range(count))
    assert all(text[t["start"] : t["end"]] in (t["text"], "") for t in provenance)
    (seam,) = own["hops"]
    said = {s["text"]: place for place, s in enumerate(own["sources"])}
    assert all(t["documents"][said[NOTE]] > 0.5 for t in provenance[:seam])
    hop = {s["text"]: s["hop"] for s in own["sources"] if s["side"] == "public"}
    assert hop[CAPITAL] == 1
    assert all(t["documents"][said[CAPITAL]] > 0.5 for t in provenance[seam:-1])


def test_a_stream_goes_on_to_the_same_text(exact: Pair) -> None:
    body = {
        "model": "dragon-7m",
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "dragon": {"hops": 1},
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    url = f"{exact.device.url}/v1/chat/completions"
    reply = httpx.post(url, headers=exact.device.headers, json=body, timeout=300)
    events = [
        json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")
    ]
    choices = [choice for event in events for choice in event["choices"]]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == BOTH
    assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["stop"]
    assert (
        events[-1]["usage"]["completion_tokens"] == post(exact.device)["usage"]["completion_tokens"]
    )


def test_limits_and_stop_strings_are_of_the_whole_answer(exact: Pair) -> None:
    whole = post(exact.device)
    count, (seam,) = whole["usage"]["completion_tokens"], whole["dragon"]["choices"][0]["hops"]
    cut = post(exact.device, max_tokens=seam + 2)
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == seam + 2 < count
    assert BOTH.startswith(cut["choices"][0]["message"]["content"])
    stopped = post(exact.device, stop="Riga, stands")
    assert stopped["choices"][0]["message"]["content"] == f"{NOTE} The Latvian capital, "
    for more in ({"stop": ". The"}, {"max_tokens": seam}, {"dragon": {"hops": 0}}):
        assert post(exact.device, **more)["choices"][0]["message"]["content"] == NOTE


def test_words_that_the_cloud_was_not_told_are_not_searched_for_unasked(exact: Pair) -> None:
    reply = post(exact.device, dragon={"cloud": "always"})
    assert reply["choices"][0]["message"]["content"] == NOTE
    assert "latvia" in reply["dragon"]["choices"][0]["not_asked"]["words"]


def test_what_is_left_of_a_question_is_offered_where_the_cloud_is_away(tmp_path: Path) -> None:
    with services.device(Setup(tmp_path), services.free_port()) as alone:
        upload(alone, "safe.md", SAFE)
        question = "What is the capital of Kenya, and what is the code of the key safe?"
        messages = [{"role": "user", "content": question}]
        reply = post(alone, messages=messages, dragon={})
    assert reply["choices"][0]["message"]["content"] == SAFE
    assert "capital of Kenya" in reply["dragon"]["choices"][0]["not_asked"]["words"]


def test_a_private_answer_asks_nobody(exact: Pair) -> None:
    private = post(exact.device, dragon={"private": True})
    assert private["choices"][0]["message"]["content"] == NOTE
    assert private["dragon"]["choices"][0]["stats"]["sent_frames"] == 0


def test_one_answer_of_the_ledger_has_both_passes(exact: Pair) -> None:
    answer = post(exact.device)["dragon"]["choices"][0]["ledger"]
    url = f"{exact.device.url}/api/ledger/{answer}"
    found = httpx.get(url, headers=exact.device.headers, timeout=60).raise_for_status().json()
    kinds = [frame["kind"] for frame in found["frames"]]
    assert kinds.count("open") == kinds.count("close") == 2
    assert any("latvia" in words.lower() for words in found["words"]), "it was searched by that"


def test_a_completion_is_no_chat(exact: Pair) -> None:
    body = {"model": "dragon-7m", "prompt": QUESTION, "dragon": {"hops": 1}}
    url = f"{exact.device.url}/v1/completions"
    reply = httpx.post(url, headers=exact.device.headers, json=body, timeout=60)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "dragon.hops"
