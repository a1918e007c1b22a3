"""A model server that dies, freezes, is slow or busy in mid-answer.

Covers `dragon.inference.backends.model_server.endpoint`.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from dragon.errors import ModelServerError
from dragon.inference.backends.model_server import endpoint
from dragon.inference.backends.model_server import model as server_model
from dragon.inference.backends.model_server.model import ModelServer
from dragon.inference.tokenizer import Tokenizer
from harness.faults.openai_server import Served
from harness.llama_server import serving as serving_llama
from harness.services import Service
from tests.dragon.inference.backends.model_server.conftest import Running, openai_style, write


@pytest.fixture(scope="module")
def prompt(tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode("The lighthouse of Askham was")


@pytest.fixture(scope="module")
def text(served: Served, prompt: list[int]) -> list[int]:
    """What follows the prompt where nothing goes wrong."""
    with openai_style(served) as running:
        return write(running.model, prompt)


def sentence(model: ModelServer, prompt: list[int]) -> str:
    """What the person gets to read."""
    with pytest.raises(ModelServerError) as caught:
        write(model, prompt)
    return caught.value.message


def test_a_connection_that_breaks_is_made_again(
    vllm: Running, prompt: list[int], text: list[int]
) -> None:
    vllm.behaviour.fault = "die"
    assert write(vllm.model, prompt) == text
    prompts = [asked["prompt"] for asked in vllm.behaviour.asked]
    assert prompts == [prompt, prompt + text[: vllm.behaviour.tokens]]


@pytest.mark.parametrize(
    "statuses",
    [[(429, {"Retry-After": "0.2"})], [(503, {}), (502, {}), (429, {"Retry-After": "soon"})]],
    ids=["asks for time", "several"],
)
def test_a_busy_server_is_asked_again(
    vllm: Running, prompt: list[int], text: list[int], statuses: list[tuple[int, dict[str, str]]]
) -> None:
    vllm.behaviour.statuses = list(statuses)
    assert write(vllm.model, prompt) == text
    assert len(vllm.behaviour.asked) == 1 + len(statuses)


def test_as_late_as_it_asks_for() -> None:
    busy = endpoint.BusyError("busy", 2.5)
    patience = endpoint.Patience(5)
    assert patience.next(busy) == 2.5
    assert 0 < patience.next(endpoint.LostError("lost")) < 1
    with pytest.raises(endpoint.BusyError, match="busy"):
        patience.next(busy)


def test_one_that_stays_busy_is_given_up(
    vllm: Running, prompt: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_model, "_PATIENCE_S", 1.0)
    vllm.behaviour.statuses = [(503, {})] * 99
    assert sentence(vllm.model, prompt) == "the model server is busy (503 come back later)"
    assert 2 <= len(vllm.behaviour.asked) <= 4


def test_one_that_asks_for_an_hour_is_given_up_at_once(vllm: Running, prompt: list[int]) -> None:
    vllm.behaviour.statuses = [(429, {"Retry-After": "3600"})] * 99
    assert sentence(vllm.model, prompt) == "the model server is busy (429 come back later)"
    assert len(vllm.behaviour.asked) == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fail", "the model server failed: out of memory"),
        ("babble", "the model server cannot be understood: AttributeError"),
    ],
)
def test_one_that_fails_says_so(vllm: Running, prompt: list[int], fault: str, said: str) -> None:
    vllm.behaviour.fault, vllm.behaviour.tokens = fault, 0
    assert sentence(vllm.model, prompt).startswith(said)


def test_a_key_that_is_withdrawn(vllm: Running, prompt: list[int]) -> None:
    vllm.behaviour.key = "another"
    assert sentence(vllm.model, prompt) == (
        "the model server refuses the request (401 Unauthorized)"
    )


def test_a_slow_one_is_waited_for(
    vllm: Running, prompt: list[int], text: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_model, "SILENCE_S", 0.1)
    vllm.behaviour.pause_s = 0.3
    assert write(vllm.model, prompt) == text
    assert len(vllm.behaviour.asked) == 1


def test_one_that_writes_nothing_more_is_given_up(
    vllm: Running, prompt: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers still, but has forgotten the text."""
    monkeypatch.setattr(server_model, "SILENCE_S", 0.1)
    monkeypatch.setattr(server_model, "_LONGEST_S", 0.5)
    vllm.behaviour.fault = "freeze"
    assert sentence(vllm.model, prompt) == "the model server does not answer any more"


def await_silence(server: Service) -> None:
    """A signal takes its time on a busy machine."""
    with suppress(httpx.TransportError):
        while True:
            httpx.get(f"{server.url}/health", timeout=0.5)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_and_a_frozen_one(
    embedded_gguf: Path,
    tokenizer: Tokenizer,
    prompt: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: signal.Signals,
) -> None:
    monkeypatch.setattr(server_model, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(endpoint, "_ALIVE_S", 0.5)
    if way is signal.SIGSTOP:
        monkeypatch.setattr(server_model, "SILENCE_S", 0.5)
    with serving_llama(embedded_gguf, tmp_path / "log") as server:
        asked = ModelServer(server.url, tokenizer)
        write(asked, prompt)
        server.signal(way)
        await_silence(server)
        said = sentence(asked, [*prompt, *prompt])
    assert said == (
        "the model server cannot be reached: Connection refused"
        if way is signal.SIGKILL
        else "the model server does not answer any more"
    )
