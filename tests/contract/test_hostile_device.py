"""A peer beside a device that does what it likes: it serves the others, and holds on to nothing.

Covers `harness.faults.hostile_device`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import services
from harness.faults.hostile_device import Behaviour, HostileDevice
from harness.memory import resident
from harness.raw_link import QUESTION
from harness.services import KEY, Service, Setup
from tests.contract.asking import Ask, ask_all, eventually

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
HOSTILE = "a-key-of-another-household"
WAIT_S = 60
SERVED_S = 4 * WAIT_S  # each answer may wait for so long
MOST_MB = 64.0


@pytest.fixture(scope="module")
def pair(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Service]]:
    env = {
        "DRAGON_PEER_KEYS": f"{KEY},{HOSTILE}",
        "DRAGON_PEER_MAX_SESSIONS": "4",
        "DRAGON_FIRST_TOKEN_DEADLINE": str(WAIT_S),
    }
    setup = Setup(tmp_path_factory.mktemp("hostile"), env)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
        services.wait_joint(device)
        served(device)
        yield device, peer
        assert "Traceback" not in peer.log.read_text()


def served(device: Service) -> None:
    """An answer that the cloud takes part in to its end.

    A machine with more to do than it can may hold the peer up for so long that an answer goes on
    without it; the next one has it.
    """
    deadline = time.monotonic() + SERVED_S
    while True:
        (reply,) = ask_all(device, [Ask(QUESTION, "oneway", temperature=0.0)])
        if reply.participation == [[0, reply.tokens]]:
            assert "Nairobi" in reply.text
            return
        assert time.monotonic() < deadline, reply


@pytest.mark.parametrize("behaviour", list(Behaviour))
def test_others_are_served(pair: tuple[Service, Service], behaviour: Behaviour) -> None:
    device, peer = pair
    before = resident(peer.process.pid)
    with HostileDevice(peer.port, HOSTILE, behaviour):
        served(device)
    # Else it holds on to an answer that nobody reads.
    eventually(lambda: peer.metric("dragon_peer_sessions") == 0)
    assert resident(peer.process.pid) - before < MOST_MB
