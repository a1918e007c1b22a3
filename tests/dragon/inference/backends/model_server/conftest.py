"""Model servers of the embedded model, and the same model run by torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from dragon.inference.backends.backend import Backend
from dragon.inference.backends.model_server.model import ModelServer
from dragon.inference.choice import ModelChoice
from dragon.inference.tokenizer import Tokenizer
from harness.faults.openai_server import Behaviour, Served, serving
from harness.llama_server import serving as serving_llama
from harness.models import SMALL_MODEL
from harness.services import Service


@pytest.fixture(scope="package")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.fixture(scope="package")
def reference() -> Iterator[Backend]:
    """The model in this process, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield ModelChoice(model=str(SMALL_MODEL)).load()[1]
    torch.set_num_threads(threads)


@pytest.fixture(scope="package")
def served(tokenizer: Tokenizer) -> Served:
    return Served(tokenizer, ModelChoice(model=str(SMALL_MODEL)).load()[1])


@pytest.fixture(scope="package")
def llama_server(
    embedded_gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """llama.cpp's server, in a process of its own."""
    log = tmp_path_factory.mktemp("llama") / "log"
    with serving_llama(embedded_gguf, log, key="sesame") as server:
        yield server


class Running:
    """A server of OpenAI's kind, what it does, and the backend that asks it."""

    def __init__(self, model: ModelServer, behaviour: Behaviour) -> None:
        self.model = model
        self.behaviour = behaviour
        behaviour.asked.clear()


@contextmanager
def openai_style(served: Served, behaviour: Behaviour | None = None) -> Iterator[Running]:
    behaviour = behaviour or Behaviour()
    with serving(served, behaviour) as url:
        model = ModelServer(url, served.tokenizer)
        yield Running(model, behaviour)
        model.close()


@pytest.fixture
def vllm(served: Served) -> Iterator[Running]:
    with openai_style(served) as running:
        yield running


def forward(model: ModelServer, start: int, tokens: list[int]) -> torch.Tensor:
    return model.forward([0], [start], torch.tensor([tokens]), 1)[0, 0]


def write(model: ModelServer, prompt: list[int], count: int = 8) -> list[int]:
    """The likeliest tokens behind a prompt, one after the other."""
    text = [int(forward(model, 0, prompt).argmax())]
    while len(text) < count:
        text.append(int(forward(model, len(prompt) + len(text) - 1, text[-1:]).argmax()))
    return text
