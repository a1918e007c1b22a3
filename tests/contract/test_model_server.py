"""Both services with a model server each side asks: the texts, and a server that fails.

The model writes freely: a server does not say that it answers by quotes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.choice import ModelChoice
from harness import gguf_file, services
from harness.faults.openai_server import Behaviour, Served, process, serving
from harness.llama_server import serving as serving_llama
from harness.models import SMALL_MODEL
from harness.services import Service, Setup
from tests import tiny
from tests.contract.asking import Ask, ask_all, questions
from tests.contract.chatting import Chat, chat

pytestmark = pytest.mark.services

TOKENS = 60


def setup(folder: Path, **env: str) -> Setup:
    tokenizer = {"DRAGON_TOKENIZER": str(SMALL_MODEL)}
    return Setup(folder, {"DRAGON_FIRST_TOKEN_DEADLINE": "60", **tokenizer, **env})


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model, as one that writes freely."""
    folder = tmp_path_factory.mktemp("free") / SMALL_MODEL.name
    shutil.copytree(SMALL_MODEL, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["dragon"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def llama(embedded_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving_llama(embedded_gguf, tmp_path_factory.mktemp("llama") / "log", slots=8) as server:
        yield server


def texts(device: Service) -> list[str]:
    """Texts that both sides wrote from the first token on."""
    services.wait_joint(device)
    dragon = ("dragon", {"aggregation": "oneway", "wait": True})
    asks = [Ask(q.text, temperature=0.0, tokens=24, more=(dragon,)) for q in questions()[:4]]
    for _ in range(3):  # a link that was silent for too long is opened anew
        replies = ask_all(device, asks)
        if all(reply.participation and reply.participation[0][0] == 0 for reply in replies):
            return [reply.text for reply in replies]
        services.wait_joint(device)
    raise AssertionError([reply.participation for reply in replies])


def test_servers_on_either_side_write_the_text_of_torch(
    llama: Service, free: Path, corpus: Path, tmp_path: Path
) -> None:
    """One server behind both sides, and one behind the peer of a device that runs a file."""
    file = tmp_path / f"{SMALL_MODEL.name}.gguf"
    gguf_file.write(free, file)
    found = []
    with (
        services.peer(setup(tmp_path / "torch", DRAGON_MODEL=str(free)), corpus) as torch,
        services.peer(setup(tmp_path / "server", DRAGON_MODEL=llama.url), corpus) as server,
    ):
        for own, peer in ((free, torch), (llama.url, server), (file, server)):
            folder = tmp_path / str(len(found))
            with services.device(setup(folder, DRAGON_MODEL=str(own)), peer.port) as device:
                found.append(texts(device))
    assert found[0] == found[1] == found[2]
    assert all(found[0])


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that hardly ever ends a text."""
    return tiny.save(tmp_path_factory.mktemp("endless") / SMALL_MODEL.name)


@pytest.fixture(scope="module")
def failing(
    endless: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Behaviour]]:
    """A peer, and what its model server does."""
    behaviour = Behaviour()
    with (
        serving(Served(*ModelChoice(model=str(endless)).load()), behaviour) as url,
        services.peer(setup(tmp_path_factory.mktemp("cloud"), DRAGON_MODEL=url), corpus) as peer,
    ):
        yield peer, behaviour


@pytest.fixture
def cloud(failing: tuple[Service, Behaviour]) -> tuple[Service, Behaviour]:
    """The same, before anything fails."""
    behaviour = failing[1]
    behaviour.pause_s, behaviour.fault, behaviour.statuses = 0.02, "", []
    return failing


@pytest.fixture(scope="module")
def device(
    endless: Path, failing: tuple[Service, Behaviour], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    own = setup(tmp_path_factory.mktemp("own"), DRAGON_MODEL=str(endless))
    with services.device(own, failing[0].port) as device:
        yield device


def begin(device: Service, talk: Chat, **more: Any) -> None:
    """An answer that is being written."""
    services.wait_joint(device)
    talk.ask("What is the capital of Kenya?", max_tokens=TOKENS, seed=3, temperature=1.0, **more)
    talk.tokens(3)


def test_a_server_that_dies_is_an_error_on_the_device(
    endless: Path, cloud: tuple[Service, Behaviour], tmp_path: Path
) -> None:
    with (
        process(endless, tmp_path / "log", pause_ms=200) as server,
        services.device(setup(tmp_path, DRAGON_MODEL=server.url), cloud[0].port) as device,
        chat(device) as talk,
    ):
        begin(device, talk)
        server.kill()
        error = talk.until(lambda event: event["type"] == "error")
        assert error["error"]["message"] == (
            "the model server cannot be reached: Connection refused"
        )
        assert error["error"]["code"] == "model_server_error"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fail", "the model server failed: out of memory"),
        ("busy", "the model server is busy (503 come back later)"),
        ("slow", "the cloud does not go on"),
        ("freeze", "the cloud does not go on"),
    ],
)
def test_a_server_that_fails_is_a_lost_cloud_on_the_peer(
    device: Service, cloud: tuple[Service, Behaviour], fault: str, reason: str
) -> None:
    behaviour = cloud[1]
    with chat(device) as talk:
        begin(device, talk)
        match fault:
            case "busy":
                behaviour.statuses = [(503, {"Retry-After": "60"})] * 999
                behaviour.fault, behaviour.tokens = "die", 0
            case "slow":
                behaviour.pause_s = 3.0
            case _:
                behaviour.fault, behaviour.tokens = fault, 0
        done = talk.done()
        assert done["usage"]["completion_tokens"] == TOKENS
        lost = [event for event in talk.events if event["type"] == "peer"][-1]
        assert (lost["joint"], lost["reason"]) == (False, reason)
        assert 0 < lost["position"] < TOKENS
