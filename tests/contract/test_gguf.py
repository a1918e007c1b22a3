"""The embedded model as a `.gguf` file run by llama.cpp, on either side or both, beside torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Mode
from harness import services, two_sided
from harness.models import SMALL_MODEL
from harness.services import Service, Setup
from tests.contract.asking import Ask, Reply, ask_all, posted, questions
from tests.contract.conftest import Pair

pytestmark = [pytest.mark.services, pytest.mark.timeout(1500)]

NAME = SMALL_MODEL.name
ASK = Ask(questions()[0].text, "oneway", 0.0, tokens=48)
TORCH, LLAMA = "torch", "llama.cpp"
TOGETHER = [Mode.ONEWAY, Mode.COUPLED, Mode.EXCHANGE, Mode.TOKENWISE]


def setup(folder: Path, backend: str, gguf: Path) -> Setup:
    model = gguf if backend == LLAMA else SMALL_MODEL
    env = {"DRAGON_MODEL": str(model), "DRAGON_FIRST_TOKEN_DEADLINE": "60", "DRAGON_EXACT": "true"}
    return Setup(folder, env)


@contextmanager
def running(own: Setup, peer: Service) -> Iterator[Service]:
    """A device of a peer, with the notes that are asked for."""
    with services.device(own, peer.port) as device:
        two_sided.upload_notes(device, questions())
        services.wait_joint(device)
        yield device


@pytest.fixture(scope="module")
def both(embedded_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return setup(tmp_path_factory.mktemp("both"), LLAMA, embedded_gguf)


@pytest.fixture(scope="module")
def peer(both: Setup, corpus: Path) -> Iterator[Service]:
    """llama.cpp in the cloud."""
    with services.peer(both, corpus) as peer:
        yield peer


@pytest.fixture(scope="module")
def device(both: Setup, peer: Service) -> Iterator[Service]:
    """llama.cpp on both sides."""
    with running(both, peer) as device:
        yield device


def joint(reply: Reply) -> bool:
    return bool(reply.participation) and reply.participation[0][0] == 0


def check(device: Service, torch: Service) -> None:
    """Beside others, every mode writes the greedy text of torch, and one text where it draws."""
    asked = [question.text for question in questions()[:2]]
    alone = ask_all(torch, [Ask(each, "oneway", 0.0, tokens=24) for each in asked])
    for number, (question, expected) in enumerate(zip(asked, alone, strict=True)):
        greedy, drawn = (
            [Ask(question, mode, temperature, tokens=24) for mode in TOGETHER]
            for temperature in (0.0, 1.0)
        )
        other = Ask(question, "coupled", 1.0, seed=3, tokens=1 + number)
        replies = ask_all(device, [*greedy, other, *drawn])
        replies.pop(len(greedy))
        assert all(joint(reply) for reply in replies)
        assert expected.text
        assert {reply.text for reply in replies[: len(greedy)]} == {expected.text}
        assert len({reply.text for reply in replies[len(greedy) :]}) == 1


def test_it_writes_the_text_of_torch_in_every_mode(device: Service, exact: Pair) -> None:
    check(device, exact.device)


@pytest.mark.parametrize("own", [LLAMA, TORCH])
def test_so_it_does_on_one_side(
    own: str, peer: Service, exact: Pair, embedded_gguf: Path, tmp_path: Path
) -> None:
    other = exact.peer if own == LLAMA else peer
    with running(setup(tmp_path, own, embedded_gguf), other) as device:
        check(device, exact.device)


def test_stop_strings_and_log_probabilities(device: Service) -> None:
    (whole,) = ask_all(device, [ASK])
    word = whole.text.split()[2]
    (cut,) = ask_all(device, [replace(ASK, more=(("stop", word),))])
    assert cut.text == whole.text[: whole.text.index(word)]
    reply = posted(device, ASK.path, **ASK.body(logprobs=True, top_logprobs=3))
    content = reply["choices"][0]["logprobs"]["content"]
    assert "".join(each["token"] for each in content).startswith(whole.text)
    assert all(-9999 <= each["logprob"] <= 0 for each in content)


@pytest.mark.parametrize("mode", sorted({*Mode} - {*TOGETHER, Mode.CONTEXT}))
def test_every_other_mode_answers(device: Service, mode: Mode) -> None:
    (reply,) = ask_all(device, [replace(ASK, mode=mode, tokens=16)])
    assert reply.text


def test_a_text_is_scored(device: Service) -> None:
    """What lm-evaluation-harness asks for: log-probabilities of a prompt."""
    asked = {"model": NAME, "prompt": "The keeper fed gulls.", "max_tokens": 0, "temperature": 0}
    reply = posted(device, "/v1/completions", **asked, echo=True, logprobs=5)
    logprobs = reply["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == asked["prompt"]
    assert logprobs["token_logprobs"][0] is None
    assert all(-60 < value <= 0 for value in logprobs["token_logprobs"][1:])
    assert all(len(top) >= 5 for top in logprobs["top_logprobs"][1:])


def test_biases_and_penalties_act_on_what_is_not_likely(device: Service) -> None:
    (plain, biased, penalised) = ask_all(
        device,
        [
            Ask("The keeper of it", "local", 0.0, tokens=8, raw=True, more=more)
            for more in ((), (("logit_bias", {"300": 100.0}),), (("repetition_penalty", 1.9),))
        ],
    )
    said = Tokenizer.load(SMALL_MODEL).decode([300] * 8)
    assert biased.text == said
    assert penalised.text != plain.text
