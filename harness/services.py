"""Both real services as processes, for experiments and tests: started, awaited, ended.

Requests pass `verify=False`: loading the certificate authorities takes longer than most of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx

from dragon.protocol.aggregator_policy import Schedule
from harness import warm
from harness.models import SMALL_MODEL

ROOT = warm.ROOT
DEMO_CORPUS = ROOT / "peer" / "corpus" / "demo_corpus.tsv"
KEY = "a-key-for-experiments"
_START_S = 120.0


@dataclass
class Service:
    """A running process that serves HTTP on loopback."""

    process: ForkServerProcess
    port: int
    log: Path
    scheme: str = "http"
    start: Callable[[], ForkServerProcess] | None = None

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.log.with_suffix("")

    @property
    def headers(self) -> dict[str, str]:
        """The headers its API requires."""
        return {"Authorization": f"Bearer {KEY}"}

    def client(self, timeout: float = 60) -> httpx.Client:
        """A client of its API."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=timeout, verify=False)

    @cached_property
    def model(self) -> str:
        """The name of a device's model."""
        reply = httpx.get(f"{self.url}/v1/models", headers=self.headers, timeout=60, verify=False)
        return str(reply.raise_for_status().json()["data"][0]["id"])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it at once, without a chance to clean up."""
        self.process.kill()
        self.process.join()

    def restart(self) -> None:
        """Restart it after it has ended, as it was started; returns once it is ready."""
        assert self.start is not None
        self.process = self.start()
        wait_until_up(self, "/ready")

    def metric(self, name: str) -> float:
        """The value of a Prometheus metric without labels."""
        reply = httpx.get(f"{self.url}/metrics", headers=self.headers, timeout=60, verify=False)
        for line in reply.text.splitlines():
            if line.split(" ")[0] == name:
                return float(line.split(" ")[1])
        raise KeyError(name)


@dataclass(frozen=True)
class Floor:
    """The least time of a decode step, in milliseconds: simulates slower hardware."""

    milliseconds: float = 0.0


@dataclass(frozen=True)
class Setup:
    """How to start the services. `data` holds their files; `env` adds settings to both.

    `documents` is a file of `harness.fixed_documents`, instead of searches; `endless` answers do
    not end before their limit; with `rows` a model that writes has a row per passage. `schedule`
    (which side aggregates in speculative aggregation) and `catch_up` (whether a side runs the
    other's drafts) are options of the device that apply to its peer, too; `certificates` (whether
    it commits tokens before the cloud's distribution is here) is its own. `runner` is a module with
    arguments, to which the service's name is added.
    """

    data: Path
    env: Mapping[str, str] = field(default_factory=dict)
    device_floor: Floor = Floor()
    peer_floor: Floor = Floor()
    documents: Path | None = None
    endless: bool = False
    rows: bool = False
    schedule: Schedule = Schedule.GREEDY
    catch_up: bool = True
    certificates: bool = True
    runner: tuple[str, ...] = ()

    def program(self, service: str, floor: Floor) -> tuple[str, list[str]]:
        """A service's module and arguments: `cli`, unless an option changes the service."""
        if self.runner:
            return self.runner[0], [*self.runner[1:], service]
        options = []
        if floor.milliseconds:
            options += ["--floor-ms", str(floor.milliseconds)]
        if self.documents is not None:
            options += ["--documents", str(self.documents)]
        if self.endless:
            options += ["--endless"]
        if self.rows:
            options += ["--rows"]
        if service == "device" and self.schedule is not Schedule.GREEDY:
            options += ["--schedule", self.schedule]
        if service == "device" and not self.catch_up:
            options += ["--no-catch-up"]
        if service == "device" and not self.certificates:
            options += ["--no-certificates"]
        return "harness.serve" if options else "cli", [service, *options]


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


AS_INSTALLED = {"DRAGON_CLOUD": "when_needed", "DRAGON_LEAST_CLOUD_WEIGHT": "0.125"}
"""The device's defaults that experiments and tests override, to have both sides take part."""

_BOTH_SIDES = {
    "DRAGON_CLOUD": "always",
    "DRAGON_LEAST_CLOUD_WEIGHT": "0",
    "DRAGON_MODEL": str(SMALL_MODEL),
}


def _start(setup: Setup, name: str, port: int, floor: Floor, env: dict[str, str]) -> Service:
    setup.data.mkdir(parents=True, exist_ok=True)
    log = setup.data / f"{name}.log"
    environment = {**os.environ, "DRAGON_THREADS": "1", **_BOTH_SIDES, **env, **setup.env}
    start = partial(warm.start, *setup.program(name, floor), environment, log)
    scheme = "https" if name == "peer" and "DRAGON_PEER_TLS_CERT" in environment else "http"
    service = Service(start(), port, log, scheme, start)
    wait_until_up(service, "/ready")
    return service


def wait_until_up(service: Service, path: str) -> None:
    """Wait until a service that was just started responds. Raises `RuntimeError`."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and service.process.is_alive():
        with contextlib.suppress(httpx.TransportError):
            # Its certificate is self-signed.
            if httpx.get(f"{service.url}{path}", timeout=2, verify=False).status_code == 200:
                return
        time.sleep(0.05)
    service.kill()
    raise RuntimeError(f"it did not start:\n{service.log.read_text()[-4000:]}")


def demo_corpus(data: Path, shards: int = 1) -> Path:
    """The demo corpus, built in a directory if missing."""
    out = data / "corpus"
    if not (out / "current").exists():
        data.mkdir(parents=True, exist_ok=True)
        log = data / "corpus.log"
        building = ["corpus", "build", str(DEMO_CORPUS), "--out", str(out)]
        building += ["--shards", str(shards)]
        process = warm.start("cli", building, os.environ, log)
        process.join()
        if process.exitcode:
            raise RuntimeError(f"the corpus was not built:\n{log.read_text()[-4000:]}")
    return out


@contextlib.contextmanager
def peer(setup: Setup, corpus: Path, port: int | None = None) -> Iterator[Service]:
    """A running cloud peer."""
    port = port or free_port()
    env = {
        "DRAGON_PEER_PORT": str(port),
        "DRAGON_PEER_KEYS": KEY,
        "DRAGON_PEER_CORPUS": str(corpus),
        "DRAGON_DATA_DIR": str(setup.data / "peer"),
    }
    service = _start(setup, "peer", port, setup.peer_floor, env)
    with ended(service):
        yield service


@contextlib.contextmanager
def device(setup: Setup, *peer_ports: int) -> Iterator[Service]:
    """A running device with its peers at `peer_ports`."""
    port = free_port()
    env = {
        "DRAGON_PORT": str(port),
        "DRAGON_DATA_DIR": str(setup.data / "device"),
        "DRAGON_API_KEY": KEY,
        "DRAGON_PEER_KEY": KEY,
        "DRAGON_PEER_URL": ",".join(f"ws://127.0.0.1:{each}/v1/link" for each in peer_ports),
    }
    service = _start(setup, "device", port, setup.device_floor, env)
    with ended(service):
        yield service


@contextlib.contextmanager
def ended(service: Service) -> Iterator[None]:
    """End a service with this context, whatever its state."""
    try:
        yield
    finally:
        if service.process.is_alive():
            service.signal(signal.SIGCONT)
            service.signal(signal.SIGTERM)
            service.process.join(10)
            if service.process.is_alive():
                service.kill()


@contextlib.contextmanager
def pair(setup: Setup) -> Iterator[tuple[Service, Service]]:
    """A running device and its peer with the demo corpus, connected."""
    with peer(setup, demo_corpus(setup.data)) as cloud, device(setup, cloud.port) as own:
        wait_joint(own)
        yield own, cloud


def wait_joint(service: Service, rtt_ms: float = 0.0, timeout_s: float = 30.0) -> None:
    """Wait until the device is connected, over a link of about this round trip or more."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        peer = httpx.get(f"{service.url}/ready", timeout=5, verify=False).json()["peer"]
        if peer["state"] == "connected" and (peer["rtt_ms"] or 0.0) >= 0.7 * rtt_ms:
            return
        time.sleep(0.05)
    raise RuntimeError(f"no such link to the peer: {peer}")
