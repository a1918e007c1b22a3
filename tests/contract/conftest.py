"""Both real services, started once a session; tests reach the peer through a relay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from harness import services, two_sided
from harness.models import SMALL_MODEL
from harness.network_emulator import Network, Relay, relay
from harness.services import Service, Setup
from tests.contract.asking import questions


class Pair:
    """A device, its peer, and the network between them."""

    def __init__(self, device: Service, peer: Service, network: Relay) -> None:
        self.device = device
        self.peer = peer
        self.network = network


@contextmanager
def tied(setup: Setup, peer: Service, rtt_s: float = 0.0) -> Iterator[Pair]:
    """A device, connected to a peer."""
    with (
        relay(peer.port, Network(rtt_s)) as network,
        services.device(setup, network.port) as device,
    ):
        services.wait_joint(device)
        yield Pair(device, peer, network)


@contextmanager
def linked(setup: Setup, corpus: Path, rtt_s: float = 0.0) -> Iterator[Pair]:
    """A device and its peer, connected."""
    with services.peer(setup, corpus) as peer, tied(setup, peer, rtt_s) as running:
        yield running


def noted(running: Pair) -> Pair:
    """With the notes that are asked for."""
    two_sided.upload_notes(running.device, questions())
    services.wait_joint(running.device)
    return running


def pair(setup: Setup, corpus: Path) -> Iterator[Pair]:
    """A device and its peer, connected, with the notes that are asked for."""
    with linked(setup, corpus) as running:
        yield noted(running)


@pytest.fixture(scope="package")
def exact_services(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    setup = Setup(tmp_path_factory.mktemp("exact"), {"DRAGON_EXACT": "true"})
    yield from pair(setup, corpus)


@pytest.fixture
def exact(exact_services: Pair) -> Pair:
    """Services whose text is a function of the request alone, whatever the network does.

    The network is without delay until a test says otherwise.
    """
    exact_services.network.network = Network()
    services.wait_joint(exact_services.device)
    return exact_services


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Iterator[LanguageModel]:
    """The services' model in this process, with as many threads as they have."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield LanguageModel.load(SMALL_MODEL, tokenizer.vocab_size)
    torch.set_num_threads(threads)
