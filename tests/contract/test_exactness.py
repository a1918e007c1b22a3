"""The test of the whole system: the same request gives the same text on any network."""

from __future__ import annotations

import pytest
import torch

from app.settings import EMBEDDED_MODEL
from bench import reference
from bench.link import Network
from bench.reference import Passage
from dragon.model import LanguageModel
from dragon.sampling import Sampling
from dragon.tokenizer import Tokenizer
from tests.contract.asking import Ask, Reply, ask_all, questions
from tests.contract.conftest import Pair

PROMPTS = 20
TOKENS = 24
SEED = 20


def asks(mode: str) -> list[Ask]:
    return [
        Ask(question.text, mode, temperature, SEED, TOKENS)
        for question in questions()[:PROMPTS]
        for temperature in (0.0, 1.0)
    ]


def passages(reply: Reply, side: str) -> list[Passage]:
    return [Passage(s["text"], s["score"]) for s in reply.sources if s["side"] == side]


@pytest.fixture(scope="module")
def expected(exact: Pair) -> list[str]:
    """The texts of the sequential reference, from the documents the services found."""
    found = ask_all(exact.device, asks("coupled"))
    tokenizer = Tokenizer.load(EMBEDDED_MODEL)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the services: a sum's order depends on it
    try:
        model = LanguageModel.load(EMBEDDED_MODEL, tokenizer.vocab_size)
        texts = []
        for ask, reply in zip(asks("coupled"), found, strict=True):
            tokens = reference.write(
                model,
                tokenizer,
                ask.question,
                passages(reply, "private"),
                passages(reply, "public"),
                Sampling(ask.temperature, seed=ask.seed),
                ask.tokens,
            )
            texts.append(tokenizer.decode([t for t in tokens if t not in tokenizer.end_ids]))
    finally:
        torch.set_num_threads(threads)
    return texts


@pytest.mark.services
@pytest.mark.parametrize("mode", ["coupled", "tokenwise"])
@pytest.mark.parametrize("rtt_ms", [0, 100, 300])
def test_same_text_on_any_network(exact: Pair, expected: list[str], mode: str, rtt_ms: int) -> None:
    exact.network.network = Network(rtt_ms / 1000)
    replies = ask_all(exact.device, asks(mode))
    for ask, reply, text in zip(asks(mode), replies, expected, strict=True):
        assert reply.text == text, ask
        assert reply.participation == [[0, reply.tokens]], ask
