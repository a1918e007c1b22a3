"""The embedded model as a `.gguf` file run by llama.cpp, on either side or both, beside torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dragon.models import EMBEDDED_MODEL
from harness import services
from harness.services import Service, Setup
from tests.contract.asking import Ask, Reply, ask_all, questions, upload

NAME = EMBEDDED_MODEL.name
ASKS = [
    *(Ask(question.text, "oneway", 0.0, tokens=48) for question in questions()[:12]),
    *(Ask(question.text, "coupled", 0.0, tokens=48) for question in questions()[:6]),
]
TORCH, LLAMA = "torch", "llama.cpp"


def setup(folder: Path, backend: str, gguf: Path) -> Setup:
    model = gguf if backend == LLAMA else EMBEDDED_MODEL
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
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {"dragon": {"aggregation": "sequencewise"}}),
        ("/v1/completions", {"echo": True, "logprobs": 1}),
    ],
)
def test_what_needs_every_probability_is_refused(
    device: Service, path: str, more: dict[str, object]
) -> None:
    asked = (
        {"prompt": "a b"} if path == "/v1/completions" else {"messages": ASKS[0].body()["messages"]}
    )
    with httpx.Client(base_url=device.url, headers=device.headers, timeout=60) as client:
        reply = client.post(path, json={"model": NAME, "max_tokens": 4, **asked, **more})
    assert reply.status_code == 400
    assert "needs the probability of every token" in reply.json()["error"]["message"]
