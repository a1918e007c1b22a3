"""A peer that has no room for an answer says when it has; the device, and its person, go by that.

Covers `peer.context`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import services
from harness.services import Floor, Service, Setup
from peer.keys import key_file
from tests import tiny
from tests.app.conftest import wait_until
from tests.contract.asking import Ask, streamed

pytestmark = pytest.mark.services
TOKENS = 160

Told = dict[str, Any]


def ask(
    device: Service, begun: threading.Event | None = None, tokens: int = TOKENS, **dragon: Any
) -> Told:
    """What is said of an answer; `begun` is set once it has text."""
    more = (("dragon", {"aggregation": "oneway", **dragon}),)
    asked = Ask("The capital of Kenya is", tokens=tokens, raw=True, model="model", more=more)
    return streamed(device, asked, lambda: begun and begun.set())[1]


def sent(device: Service, told: Told) -> list[str]:
    """The kinds of frames that have left the device for an answer."""
    url = f"{device.url}/api/ledger/{told['ledger']}"
    reply = httpx.get(url, headers=device.headers, timeout=60, verify=False).raise_for_status()
    return [frame["kind"] for frame in reply.json()["frames"]]


@pytest.fixture(scope="module")
def device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whose peer writes an answer at once for it."""
    data = tmp_path_factory.mktemp("refused")
    env = {
        "DRAGON_MODEL": str(tiny.save(data / "model")),
        "DRAGON_PEER_MAX_SESSIONS": "2",
        "DRAGON_FIRST_TOKEN_DEADLINE": "0.2",
    }
    setup = Setup(data, env, Floor(20), Floor(20), rows=True)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
        services.wait_joint(device)
        ask(device, tokens=1)  # how long answers last the peer knows from those it has written
        yield device


def beside_another(device: Service, **dragon: Any) -> Told:
    """What is said of an answer that is asked for while a shorter one has the only place."""
    services.wait_joint(device)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(ask, device, begun)
        wait_until(lambda: begun.is_set() or first.done())
        second = ask(device, tokens=2 * TOKENS, **dragon)
        first.result()
        return second


def test_an_answer_that_found_no_room_is_joined_once_there_is_some(device: Service) -> None:
    second = beside_another(device)
    joined, _ = second["participation"][0]
    assert joined > 0
    assert second["refused"] is None
    # Asked for, refused, and asked for again.
    assert sent(device, second).count("open") > 1


def test_an_answer_that_is_to_wait_for_the_cloud_waits_for_room(device: Service) -> None:
    second = beside_another(device, wait=True)
    assert second["participation"][0][0] == 0
    assert sent(device, second).count("open") > 1


def test_a_key_without_tokens_is_told_until_when_and_not_asked_meanwhile(
    corpus: Path, tmp_path: Path
) -> None:
    key = key_file(tmp_path / "peer").add("dora", tokens_a_day=5)
    model = str(tiny.save(tmp_path / "model"))
    setup = Setup(tmp_path, {"DRAGON_MODEL": model, "DRAGON_PEER_KEY": key}, rows=True)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
        services.wait_joint(device)
        assert ask(device)["refused"] is None
        refused, spared = ask(device), ask(device)
        for told in (refused, spared):
            assert "has had its 5 tokens of today" in told["refused"]
            assert "from midnight, UTC: try again in " in told["refused"]
            assert told["participation"] == []
        assert (sent(device, refused), sent(device, spared)) == (["open"], [])
