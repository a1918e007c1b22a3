"""The peer on Ray Serve, two replicas and two shards, and a device: started once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import ray_peers, services
from harness.ray_peers import RayPeers
from harness.services import Floor, Service, Setup

EXACT = {"DRAGON_EXACT": "true"}


@dataclass(frozen=True)
class Fleet:
    """A device, and the replicas that it reaches at one address. `corpus` is in two shards."""

    device: Service
    peers: RayPeers
    corpus: Path


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """All of it."""
    data = tmp_path_factory.mktemp("ray")
    corpus = services.demo_corpus(data, shards=2)
    with (
        ray_peers.peers(data / "peers", corpus, 2, EXACT) as peers,
        services.device(Setup(data, EXACT, Floor(30)), peers.port) as device,
    ):
        yield Fleet(device, peers, corpus)


@pytest.fixture
def fleet(started: Fleet) -> Fleet:
    """All of it, linked."""
    services.wait_joint(started.device, timeout_s=120)
    return started
