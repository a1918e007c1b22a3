"""A cloud that is late: most answers begin without it, one that was asked to wait does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragon.models import EMBEDDED_WRITER
from harness import services
from harness.services import Floor, Service, Setup, wait_joint
from tests import tiny
from tests.app.conftest import wait_until
from tests.contract.asking import chunks, posted
from tests.contract.conftest import Pair, linked

pytestmark = pytest.mark.services
TOKENS = 100


class Answer:
    """An answer that is read as it is written."""

    def __init__(self, device: Service, **dragon: Any) -> None:
        self.pieces: list[str] = []
        self.participation: list[list[int]] = []
        self._device = device
        self._body = {
            "model": "model",
            "messages": [{"role": "user", "content": "What is the capital of Kenya?"}],
            "max_tokens": TOKENS,
            "seed": 3,
            "dragon": {"cloud": "always", **dragon},
        }
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for chunk in chunks(self._device, "/v1/chat/completions", self._body):
            choice = chunk["choices"][0]
            if choice["delta"].get("content"):
                self.pieces.append(choice["delta"]["content"])
            if choice["finish_reason"] is not None:
                self.participation = chunk["dragon"]["choices"][0]["participation"]

    def end(self) -> list[list[int]]:
        """Read to the end; which tokens the cloud took part in."""
        self._thread.join()
        return self.participation


@pytest.fixture(scope="module")
def pair(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A device that waits a fifth of a second, and a model that never ends by itself."""
    data = tmp_path_factory.mktemp("waiting")
    model = tiny.save(data / "model")
    env = {"DRAGON_MODEL": str(model), "DRAGON_FIRST_TOKEN_DEADLINE": "0.2"}
    setup = Setup(data, env, Floor(20), Floor(20), rows=True)
    with linked(setup, corpus) as pair:
        yield pair


@contextmanager
def late(pair: Pair) -> Iterator[tuple[Answer, Answer]]:
    """While the cloud is late: an answer that waits for it, and one that has gone on without."""
    wait_joint(pair.device)
    pair.network.pause()
    try:
        waiting, other = Answer(pair.device, wait=True), Answer(pair.device)
        wait_until(lambda: len(other.pieces) > 5)
        yield waiting, other
    finally:
        pair.network.resume()


def test_the_first_token_waits_for_a_late_cloud_where_that_is_asked_for(pair: Pair) -> None:
    with late(pair) as (waiting, other):
        assert waiting.pieces == []
    assert waiting.end() == [[0, TOKENS]]
    ((joined, end),) = other.end()
    assert 5 < joined < end == TOKENS


def test_a_cloud_that_is_lost_is_not_waited_for(pair: Pair) -> None:
    with late(pair) as (waiting, other):
        pair.network.cut()
        wait_until(lambda: len(waiting.pieces) > 0)
    waiting.end()
    other.end()


def test_a_cloud_that_comes_late_is_waited_for_where_there_is_nothing_else_to_say(
    corpus: Path, tmp_path: Path
) -> None:
    env = {"DRAGON_MODEL": str(EMBEDDED_WRITER), "DRAGON_FIRST_TOKEN_DEADLINE": "0.8"}
    with linked(Setup(tmp_path, {**env, **services.AS_INSTALLED}), corpus, rtt_s=1.0) as pair:
        wait_joint(pair.device)
        asked = {"role": "user", "content": "What is the capital of Kenya?"}
        reply = posted(pair.device, "/v1/chat/completions", messages=[asked], temperature=0)
    assert "Nairobi" in reply["choices"][0]["message"]["content"]
