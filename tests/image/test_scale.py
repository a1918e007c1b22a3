"""`compose.scale.yaml`: two peers behind a balancer, and a device beyond it."""

from __future__ import annotations

import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator

import httpx
import pytest

from dragon.link.address import fingerprint
from harness import services
from harness.services import Floor, Service, Setup
from tests.contract.asking import Ask, in_the_middle, streamed
from tests.image.composition import composed, read
from tests.image.containers import Container

FILE = "compose.scale.yaml"
BALANCER = "https://127.0.0.1:8443"
KEY = "one-key-of-a-device-for-a-test"
TOKENS = 120
_GRACE_S = 70  # of the file: then an engine kills what it was to stop


class Fleet:
    """The services of the file, and a device that reaches them by the balancer alone."""

    def __init__(self, containers: dict[str, Container], device: Service) -> None:
        self.device = device
        self.peers = [containers["peer-1"], containers["peer-2"]]

    def used(self) -> Container:
        """The peer that is writing an answer."""
        (peer,) = (peer for peer in self.peers if peer.running and sessions(peer))
        return peer

    def write(self, act: Callable[[], object], tokens: int = TOKENS) -> tuple[str, list[list[int]]]:
        """A text, and from and to which tokens the cloud took part; `act` is called midway."""
        ask = Ask("The capital of Kenya is", "oneway", seed=5, tokens=tokens, raw=True)
        text, told = streamed(self.device, ask, in_the_middle(act))
        return text, told["participation"]


def sessions(peer: Container) -> float:
    host = peer.environment["DRAGON_PEER_HOST"]
    told = httpx.get(f"http://{host}:8100/metrics").text.splitlines()
    return float(next(line for line in told if line.startswith("dragon_peer_sessions ")).split()[1])


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    data = tmp_path_factory.mktemp("scale")
    key, certificate = data / "peer.key", data / "peer.crt"
    making = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
        "-days 1 -subj /CN=peer"
    )
    subprocess.run([*making.split(), "-keyout", key, "-out", certificate], check=True)
    (data / "peer.pem").write_text(certificate.read_text() + key.read_text())
    pin = fingerprint(ssl.PEM_cert_to_DER_cert(certificate.read_text()))
    given = {
        "DRAGON_EXACT": "true",
        "DRAGON_PEER_URL": f"wss://127.0.0.1:8443/v1/link#sha256={pin}",
        "DRAGON_PEER_KEY": KEY,
    }
    setup = Setup(data, given, device_floor=Floor(20))
    exact = {"DRAGON_EXACT": "true"}
    with (
        composed(FILE, data, {"DRAGON_PEER_KEYS": KEY}, exact) as containers,
        services.device(setup) as device,
    ):
        services.wait_joint(device)
        yield Fleet(containers, device)


def test_an_answer_outlives_the_peer_that_is_killed(fleet: Fleet) -> None:
    killed: list[Container] = []

    def kill() -> None:
        killed.append(fleet.used())
        killed[0].signal(signal.SIGKILL)

    text, ((began, lost), (joined, ended)) = fleet.write(kill)
    assert began == 0 < lost < joined < ended == TOKENS
    until, participation = fleet.write(lambda: None, lost)
    assert participation == [[0, lost]]
    assert text.startswith(until.rstrip("\ufffd"))
    killed[0].start()
    killed[0].wait_healthy()


def test_no_answer_notices_a_peer_that_is_stopped(fleet: Fleet) -> None:
    whole, _ = fleet.write(lambda: None)
    stopped: list[Container] = []

    def stop() -> None:
        stopped.append(fleet.used())
        stopped[0].signal(signal.SIGTERM)

    assert fleet.write(stop) == (whole, [[0, TOKENS]])
    assert fleet.write(lambda: None) == (whole, [[0, TOKENS]])
    stopped[0].wait(_GRACE_S)
    assert "subprocess exited on terminated" in stopped[0].log.read_text()


def test_devices_alone_are_let_through(fleet: Fleet) -> None:
    for path in ("/metrics", "/ready", "/"):
        assert httpx.get(f"{BALANCER}{path}", verify=False).status_code == 403
    wrong = httpx.get(f"{BALANCER}/v1/link", verify=False)
    assert wrong.status_code in {400, 404, 426}


def test_it_does_not_start_without_keys() -> None:
    with pytest.raises(ValueError, match="DRAGON_PEER_KEYS: the keys of the devices"):
        read(FILE, {})
