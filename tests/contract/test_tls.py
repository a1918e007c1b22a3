"""A peer that encrypts its links by itself, and a device that takes its certificate alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.peer_link.connection import measure
from dragon.errors import LinkError
from dragon.link.address import PeerAddress
from dragon.link.control import Hello
from harness import services
from harness.network_emulator import Relay, relay
from harness.raw_link import tokenizer
from harness.services import KEY, Service, Setup
from tests.certificates import Certificate, self_signed
from tests.contract.asking import Ask, ask_all, peer_once

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def peer(
    corpus: Path, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    tls = {
        "DRAGON_PEER_TLS_CERT": str(certificate.chain),
        "DRAGON_PEER_TLS_KEY": str(certificate.key),
    }
    with services.peer(Setup(tmp_path_factory.mktemp("tls"), tls), corpus) as running:
        yield running


@pytest.fixture
def network(peer: Service) -> Iterator[Relay]:
    with relay(peer.port) as running:
        yield running


def state_of(peer_url: str, directory: Path, wanted: str) -> dict[str, Any]:
    """How the link of a device with this setting stands, once it is as it should be."""
    setup = Setup(directory, {"DRAGON_PEER_URL": peer_url})
    with services.device(setup, 0) as device:
        found = peer_once(device, wanted)
        if wanted == "connected":
            ask = Ask("What is the capital of Kenya?", "oneway", tokens=8, raw=True)
            (reply,) = ask_all(device, [ask])
            assert reply.participation == [[0, reply.tokens]]
        assert KEY not in device.log.read_text()
        return found


def test_a_pinned_certificate_is_taken(
    peer: Service, network: Relay, certificate: Certificate, tmp_path: Path
) -> None:
    assert f"#sha256={certificate.fingerprint}" in peer.log.read_text()
    url = f"wss://127.0.0.1:{network.port}/v1/link#sha256={certificate.fingerprint}"
    state_of(url, tmp_path, "connected")


@pytest.mark.parametrize("pin", ["", f"#sha256={'ab' * 32}"])
def test_any_other_is_refused(network: Relay, tmp_path: Path, pin: str) -> None:
    found = state_of(f"wss://127.0.0.1:{network.port}/v1/link{pin}", tmp_path, "refused")
    assert "certificate" in found["detail"]


def test_the_probe_holds_to_the_pin_too(peer: Service, certificate: Certificate) -> None:
    hello = Hello(tokenizer=tokenizer().fingerprint)
    url = f"wss://127.0.0.1:{peer.port}/v1/link"
    with pytest.raises(LinkError, match=certificate.fingerprint):
        measure(PeerAddress(url, "ab" * 32), KEY, hello)
    with pytest.raises(LinkError, match="measure relevance differently"):  # it has read our hello
        measure(PeerAddress(url, certificate.fingerprint), KEY, hello)


def test_nobody_gets_in_unencrypted(peer: Service) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{peer.port}/health", timeout=60)


def test_a_certificate_that_is_none_keeps_the_peer_from_starting(
    corpus: Path, certificate: Certificate, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.crt"
    wrong.write_text("no certificate")
    tls = {"DRAGON_PEER_TLS_CERT": str(wrong), "DRAGON_PEER_TLS_KEY": str(certificate.key)}
    starting = services.peer(Setup(tmp_path / "peer", tls), corpus)
    with pytest.raises(RuntimeError, match="DRAGON_PEER_TLS_CERT"), starting:
        pass
