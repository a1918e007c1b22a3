"""The embedded model as a `.gguf` file run by llama.cpp, on either side or both, beside torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Mode
from harness import services
from harness.models import SMALL_MODEL
from harness.services import Service, Setup
from tests.contract.asking import Ask, Reply, ask_all, questions, upload

NAME = SMALL_MODEL.name
ASKS = [
    *(Ask(question.text, "oneway", 0.0, tokens=48) for question in questions()[:4]),
    *(Ask(question.text, "coupled", 0.0, tokens=48) for question in questions()[:4]),
]
TORCH, LLAMA = "torch", "llama.cpp"


def setup(folder: Path, backend: str, gguf: Path) -> Setup:
    model = gguf if backend == LLAMA else SMALL_MODEL
    return Setup(folder, {"DRAGON_MODEL": str(model), "DRAGON_FIRST_TOKEN_DEADLINE": "60"})


@pytest.fixture(scope="module")
def texts(
    embedded_gguf: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], list[str]]:
    """What device and peer answer together, by what runs the model of each."""
    found = {}
    for cloud in (TORCH, LLAMA):
        folder = tmp_path_factory.mktemp(f"cloud-{cloud}")
        with services.peer(setup(folder, cloud, embedded_gguf), corpus) as peer:
            for own in (TORCH, LLAMA):
                with services.device(setup(folder / own, own, embedded_gguf), peer.port) as device:
                    prepare(device)
                    groups = [ASKS[start : start + 4] for start in range(0, len(ASKS), 4)]
                    replies = [reply for group in groups for reply in ask_all(device, group)]
                    assert all(joint(reply) for reply in replies)
                    found[own, cloud] = [reply.text for reply in replies]
    return found


def prepare(device: Service) -> None:
    for index, question in enumerate(questions()):
        if question.note is not None:
            upload(device, f"note-{index}.txt", question.note)
    services.wait_joint(device)


def joint(reply: Reply) -> bool:
    return bool(reply.participation) and reply.participation[0][0] == 0


@pytest.mark.services
@pytest.mark.parametrize("sides", [(LLAMA, LLAMA), (LLAMA, TORCH), (TORCH, LLAMA)])
def test_it_writes_the_text_of_torch(
    texts: dict[tuple[str, str], list[str]], sides: tuple[str, str]
) -> None:
    assert texts[sides] == texts[TORCH, TORCH]
    assert all(texts[sides])


@pytest.fixture(scope="module")
def device(
    embedded_gguf: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """llama.cpp on both sides."""
    both = setup(tmp_path_factory.mktemp("both"), LLAMA, embedded_gguf)
    with services.peer(both, corpus) as peer, services.device(both, peer.port) as running:
        prepare(running)
        yield running


@pytest.mark.services
def test_a_streamed_answer_is_the_whole_one(device: Service) -> None:
    ask = ASKS[0]
    (whole,) = ask_all(device, [ask])
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=60) as client:
        reply = client.post(ask.path, json=ask.body(stream=True))
    events = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    pieces = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
    assert "".join(piece for piece in pieces if piece) == whole.text


@pytest.mark.services
def test_stop_strings_and_log_probabilities(device: Service) -> None:
    (whole,) = ask_all(device, [ASKS[0]])
    word = whole.text.split()[2]
    (cut,) = ask_all(device, [replace(ASKS[0], more=(("stop", word),))])
    assert cut.text == whole.text[: whole.text.index(word)]
    body = ASKS[0].body(logprobs=True, top_logprobs=3)
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=60) as client:
        reply = client.post(ASKS[0].path, json=body).json()
    content = reply["choices"][0]["logprobs"]["content"]
    assert "".join(each["token"] for each in content).startswith(whole.text)
    assert all(-9999 <= each["logprob"] <= 0 for each in content)


@pytest.mark.services
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.CONTEXT])
def test_every_mode_answers(device: Service, mode: Mode) -> None:
    replies = ask_all(device, [replace(ask, mode=mode, tokens=16) for ask in ASKS[:4]])
    assert all(reply.text for reply in replies)


@pytest.mark.services
def test_a_text_is_scored(device: Service) -> None:
    """What lm-evaluation-harness asks for: log-probabilities of a prompt."""
    asked = {"model": NAME, "prompt": "The keeper fed gulls.", "max_tokens": 0, "temperature": 0}
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=60) as client:
        reply = client.post("/v1/completions", json={**asked, "echo": True, "logprobs": 5})
    reply.raise_for_status()
    logprobs = reply.json()["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == asked["prompt"]
    assert logprobs["token_logprobs"][0] is None
    assert all(-60 < value <= 0 for value in logprobs["token_logprobs"][1:])
    assert all(len(top) >= 5 for top in logprobs["top_logprobs"][1:])


@pytest.mark.services
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


@pytest.fixture(scope="module", params=[(LLAMA, LLAMA, 5), (LLAMA, TORCH, 3), (TORCH, LLAMA, 3)])
def exact(
    request: pytest.FixtureRequest,
    embedded_gguf: Path,
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, int]]:
    """A device in exact mode, as its peer is, and how many questions to ask it."""
    folder = tmp_path_factory.mktemp("exact")
    *sides, count = request.param
    own, cloud = (
        replace(made, env={**made.env, "DRAGON_EXACT": "true"})
        for made in (setup(folder, backend, embedded_gguf) for backend in sides)
    )
    with services.peer(cloud, corpus) as peer, services.device(own, peer.port) as running:
        prepare(running)
        yield running, count


@pytest.mark.services
@pytest.mark.timeout(1500)
def test_one_text_in_every_mode_beside_others(exact: tuple[Service, int]) -> None:
    device, count = exact
    modes = [Mode.ONEWAY, Mode.COUPLED, Mode.EXCHANGE, Mode.TOKENWISE]
    for number, question in enumerate(questions()[:count]):
        other = Ask(question.text, "coupled", 1.0, seed=3, tokens=1 + number)
        greedy, drawn = (
            [Ask(question.text, mode, temperature, tokens=24) for mode in modes]
            for temperature in (0.0, 1.0)
        )
        replies = ask_all(device, [*greedy, other, *drawn])
        replies.pop(len(greedy))
        assert all(joint(reply) for reply in replies)
        assert len({reply.text for reply in replies[: len(greedy)]}) == 1
        assert len({reply.text for reply in replies[len(greedy) :]}) == 1
