"""The test of the whole system: the same request gives the same text on any network.

Covers `peer.serving`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from dragon.inference import grammar
from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Mode, Sampling
from harness import reference
from harness.network_emulator import Network
from harness.reference import Passage
from tests.contract.asking import Ask, Reply, ask_all, questions
from tests.contract.conftest import Pair

# A limit for machines that are slow and busy: nothing here waits for time to pass.
pytestmark = pytest.mark.timeout(1500)

PROMPTS = 4
# The reference of whole answers scores them without a cache.
WHOLE_PROMPTS = 3
TOKENS = 24
SEED = 20
# The texts of these are other ones, but no less fixed: `speculative` has independent noise,
# `sequencewise` mixes whole answers, and in `local` the device is alone.
OF_THEIR_OWN = (Mode.SPECULATIVE, Mode.SEQUENCEWISE, Mode.LOCAL)


def asks(mode: Mode) -> list[Ask]:
    """Half of them chats, whose model quotes, and half texts, which it continues freely."""
    return [
        Ask(question.text, mode, temperature, SEED, TOKENS, raw=number % 4 > 1)
        for number, question in enumerate(questions()[: prompts(mode)])
        for temperature in (0.0, 1.0)
    ]


def prompts(mode: Mode) -> int:
    return WHOLE_PROMPTS if mode is Mode.SEQUENCEWISE else PROMPTS


@dataclass(frozen=True)
class Reference:
    """The sequential reference, with the documents that the services find."""

    model: LanguageModel
    tokenizer: Tokenizer
    found: Mapping[tuple[str, bool], Reply]
    written: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def text(self, ask: Ask, sampling: Sampling) -> str:
        """Of an ask with this sampling; most modes have one text, which is written once."""
        mode = Mode(ask.mode) if Mode(ask.mode) in OF_THEIR_OWN else Mode.COUPLED
        key = (ask.question, ask.raw, ask.tokens, mode, sampling)
        if key not in self.written:
            self.written[key] = self._written(ask, sampling, mode)
        return self.written[key]

    def _written(self, ask: Ask, sampling: Sampling, mode: Mode) -> str:
        sources = self.found[ask.question, ask.raw].sources
        sides = [
            [Passage(s["text"], s["score"]) for s in sources if s["side"] == side]
            for side in ("private", "public")
        ]
        tokens = reference.write(
            self.model, self.tokenizer, ask.question, *sides,
            sampling, ask.tokens, mode, raw=ask.raw,
        )  # fmt: skip
        return self.tokenizer.decode([t for t in tokens if t not in self.tokenizer.end_ids])


@pytest.fixture(scope="module")
def sequential(exact_services: Pair, model: LanguageModel, tokenizer: Tokenizer) -> Reference:
    """Chats and texts of all questions, asked once to see what is found for them."""
    wanted = [
        Ask(question.text, seed=SEED, tokens=TOKENS, raw=raw)
        for question in questions()[:PROMPTS]
        for raw in (False, True)
    ]
    replies = ask_all(exact_services.device, wanted)
    found = {(ask.question, ask.raw): reply for ask, reply in zip(wanted, replies, strict=True)}
    return Reference(model, tokenizer, found)


@pytest.fixture(scope="module")
def expected(sequential: Reference) -> Callable[[Mode], list[str]]:
    """The texts of the sequential reference."""

    def texts(mode: Mode) -> list[str]:
        return [
            sequential.text(ask, Sampling(ask.temperature, seed=ask.seed)) for ask in asks(mode)
        ]

    return texts


@pytest.mark.services
@pytest.mark.parametrize(
    ("mode", "rtt_ms"),
    [
        *((Mode.ONEWAY, rtt_ms) for rtt_ms in (0, 500)),
        *((Mode.COUPLED, rtt_ms) for rtt_ms in (0, 300)),
        # Over 100 ms the parameters below are tried.
        *((mode, 0) for mode in (Mode.SPECULATIVE, Mode.SEQUENCEWISE)),
        (Mode.TOKENWISE, 100),
        (Mode.EXCHANGE, 100),
    ],
)
def test_same_text_on_any_network(
    exact: Pair, expected: Callable[[Mode], list[str]], mode: Mode, rtt_ms: int
) -> None:
    exact.network.network = Network(rtt_ms / 1000)
    texts = expected(mode)
    replies = ask_all(exact.device, asks(mode))
    for ask, reply, text in zip(asks(mode), replies, texts, strict=True):
        assert reply.text == text, ask
        assert reply.participation == [[0, reply.tokens]], ask


@pytest.mark.services
def test_greedy_text_is_the_same_in_every_mode(expected: Callable[[Mode], list[str]]) -> None:
    coupled, speculative = expected(Mode.COUPLED), expected(Mode.SPECULATIVE)
    assert speculative[::2] == coupled[::2]
    assert speculative[1::2] != coupled[1::2]


BIAS = {"11": -100.0, "16": 4.0, "300": 6.0}
PENALTIES: dict[str, Any]
PENALTIES = {
    "presence_penalty": 0.75, "frequency_penalty": 1.25, "repetition_penalty": 1.2, "min_tokens": 12
}  # fmt: skip
TRUNCATION: dict[str, Any] = {"top_k": 3, "min_p": 0.05, "top_p": 0.9}
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "maxLength": 8}, "sure": {"type": "boolean"}},
    "required": ["place", "sure"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}


def continued(
    pair: Pair, sequential: Reference, mode: Mode, given: dict[str, Any], sampling: Sampling
) -> Iterator[tuple[Reply, str]]:
    """Replies to texts with parameters `given`, and what the reference writes by `sampling`."""
    more = tuple(given.items())
    asks = [
        Ask(question.text, mode, 1.0, SEED, TOKENS, raw=True, more=more)
        for question in questions()[:2]
    ]
    for ask, reply in zip(asks, ask_all(pair.device, asks), strict=True):
        yield reply, sequential.text(ask, sampling)


MODES = [mode for mode in Mode if mode.joint or mode is Mode.LOCAL]


@pytest.mark.services
@pytest.mark.parametrize("mode", MODES)
def test_sampling_parameters_act_alike_on_both_sides(
    exact: Pair, sequential: Reference, mode: Mode
) -> None:
    exact.network.network = Network(0.1)
    # Algorithm 1 knows no truncation.
    given = PENALTIES | ({} if mode is Mode.SPECULATIVE else TRUNCATION)
    bias = tuple((int(token), value) for token, value in BIAS.items())
    sampling = Sampling(1.0, seed=SEED, logit_bias=bias, **given)
    for reply, text in continued(exact, sequential, mode, given | {"logit_bias": BIAS}, sampling):
        assert reply.text == text
        assert reply.tokens >= PENALTIES["min_tokens"]


@pytest.mark.services
@pytest.mark.parametrize("mode", MODES)
def test_a_schema_holds_alike_on_both_sides(exact: Pair, sequential: Reference, mode: Mode) -> None:
    exact.network.network = Network(0.1)
    sampling = Sampling(1.0, seed=SEED, grammar=grammar.of_schema(SCHEMA))
    for reply, text in continued(exact, sequential, mode, {"response_format": FORMAT}, sampling):
        assert reply.text == text
        jsonschema.validate(json.loads(reply.text), SCHEMA)
