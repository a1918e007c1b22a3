"""The peer on Ray Serve, really run: `make ray-test`.

Covers `peer.on_ray`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from dragon.link import control, registry
from harness import services
from harness.raw_link import greeted, link
from harness.ray_peers import wait
from harness.services import KEY, ROOT, Floor, Service, Setup
from peer import on_ray
from tests.contract.asking import Ask, in_the_middle, streamed
from tests.on_ray.conftest import EXACT, Fleet

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

TOKENS = 120
LINKS = 8
WAIT_S = 120.0
DRAIN_DEADLINE_S = 60.0


def write(
    device: Service, act: Callable[[], object] = lambda: None, tokens: int = TOKENS
) -> tuple[str, dict[str, Any]]:
    """A text, and what is said of how it was written; `act` is called midway."""
    ask = Ask("The capital of Kenya is", "oneway", seed=5, tokens=tokens, raw=True)
    return streamed(device, ask, in_the_middle(act))


def test_an_answer_is_that_of_one_process_with_the_corpus_at_hand(
    fleet: Fleet, tmp_path: Path
) -> None:
    text, told = write(fleet.device)
    assert (told["participation"], told["unsearched"]) == ([[0, TOKENS]], 0)
    with (
        services.peer(Setup(tmp_path / "peer", EXACT), fleet.corpus) as peer,
        services.device(Setup(tmp_path, EXACT), peer.port) as device,
    ):
        services.wait_joint(device)
        alone, of_one = write(device)
    assert alone == text
    assert of_one["sources"] == told["sources"] != []


def test_the_routes_are_those_of_a_peer(fleet: Fleet) -> None:
    url = f"http://127.0.0.1:{fleet.peers.port}"
    assert httpx.get(f"{url}/health", timeout=60).json() == {"status": "ok"}
    ready = httpx.get(f"{url}/ready", timeout=60).json()
    assert (ready["ready"], ready["corpus"], ready["passages"]) == (True, "v1", 2718)
    assert "dragon_peer_sessions" in httpx.get(f"{url}/metrics", timeout=60).text
    with pytest.raises(InvalidStatus) as refused, link(fleet.peers.port, "not-the-key-of-anybody"):
        pass
    assert refused.value.response.status_code == 401
    assert refused.value.response.body.startswith(b"wrong key: set DRAGON_PEER_KEY")


def test_a_shard_that_is_down_is_left_out_and_the_answer_says_so(fleet: Fleet) -> None:
    whole, _ = write(fleet.device, tokens=8)
    for shard in ("Shard-0", "Shard-1"):
        (process,) = fleet.peers.running(shard).values()
        os.kill(process, signal.SIGKILL)
        _, told = write(fleet.device, tokens=8)
        assert told["unsearched"] == 1
        wait(lambda: write(fleet.device, tokens=8)[1]["unsearched"] == 0)
        assert write(fleet.device, tokens=8)[0] == whole


def test_an_answer_outlives_the_replicas_that_are_killed(fleet: Fleet) -> None:
    def kill() -> None:
        for process in fleet.peers.running().values():
            os.kill(process, signal.SIGKILL)

    text, told = write(fleet.device, kill)
    began, lost = told["participation"][0]
    assert began == 0 < lost < TOKENS
    wait(lambda: len(fleet.peers.running()) == 2)
    services.wait_joint(fleet.device, timeout_s=WAIT_S)
    until, told = write(fleet.device, tokens=lost)
    assert told["participation"] == [[0, lost]]
    assert text.startswith(until.rstrip("\ufffd"))
    assert len(text) > len(until)


def test_replicas_that_are_told_to_go_ask_their_devices_to_leave(fleet: Fleet) -> None:
    whole, _ = write(fleet.device)
    over = threading.Event()

    def go() -> None:
        fleet.peers.scale(1)

    with ExitStack() as stack:
        links = [stack.enter_context(greeted(fleet.peers.port)) for _ in range(LINKS)]
        threads = stack.enter_context(ThreadPoolExecutor(LINKS))
        stack.callback(over.set)
        asked = [threads.submit(is_asked_to_leave, each, over) for each in links]
        text, told = write(fleet.device, go)
        assert (text, told["participation"]) == (whole, [[0, TOKENS]])
        wait(lambda: any(each.done() for each in asked))
        over.set()
        assert any(each.result() for each in asked)
    # Nobody is left: they need not wait for their deadline.
    wait(lambda: len(on_ray.replicas("Link")) == 1)
    assert write(fleet.device)[0] == whole
    fleet.peers.scale(2)
    wait(lambda: len(fleet.peers.running()) == 2)


def test_replicas_are_wanted_by_answers_under_way() -> None:
    def wanted(*answers: int) -> int:
        metrics = {"answers": dict(enumerate(map(float, answers)))} if answers else {}
        bounds = {"capacity_adjusted_min_replicas": 2, "capacity_adjusted_max_replicas": 5}
        return on_ray.by_answers(SimpleNamespace(aggregated_metrics=metrics, **bounds))[0]

    assert [wanted(), wanted(0, 0), wanted(16, 16), wanted(16, 17), wanted(90, 9)] == [
        2,
        2,
        2,
        3,
        5,
    ]


def test_the_file_for_deployment_is_one() -> None:
    config = yaml.safe_load((ROOT / "peer" / "serve.yaml").read_text())
    (application,) = ServeDeploySchema.model_validate(config).applications
    assert application.name == on_ray.NAME
    assert application.import_path == f"{on_ray.__name__}:{on_ray.application.__name__}"
    (deployment,) = config["applications"][0]["deployments"]
    policy = deployment["autoscaling_config"]["policy"]["policy_function"]
    assert policy == f"{on_ray.__name__}:{on_ray.by_answers.__name__}"


def test_dragon_peer_with_ray_starts_and_drains_before_it_ends(tmp_path: Path) -> None:
    port = services.free_port()
    given = {
        "DRAGON_PEER_PORT": str(port),
        "DRAGON_PEER_KEYS": KEY,
        "DRAGON_PEER_CORPUS": str(services.demo_corpus(tmp_path, shards=2)),
        "DRAGON_DATA_DIR": str(tmp_path / "data"),
        "DRAGON_THREADS": "1",
        **EXACT,
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        peer = subprocess.Popen(
            [sys.executable, "-m", "cli", "peer", "--ray"],
            env=os.environ | given,
            cwd=ROOT,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + WAIT_S
        while not answers(f"http://127.0.0.1:{port}/ready"):
            assert peer.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        with services.device(Setup(tmp_path, EXACT, Floor(30)), port) as device:
            services.wait_joint(device)
            _, told = write(device, lambda: peer.send_signal(signal.SIGTERM))
            assert told["participation"] == [[0, TOKENS]]
            # It does not wait for its deadline, though the device has nowhere else to go.
            assert peer.wait(DRAIN_DEADLINE_S) == 0, log.read_text()
    finally:
        peer.kill()
    assert not answers(f"http://127.0.0.1:{port}/ready")


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def is_asked_to_leave(device: ClientConnection, over: threading.Event) -> bool:
    """Whether a `draining` comes, on a link that is kept alive until then."""
    for number in itertools.count():
        if over.is_set():
            return False
        device.send(registry.encode(control.Ping(number=number)))
        with suppress(TimeoutError):
            frame = device.recv(timeout=0.5)
            if isinstance(frame, str) and json.loads(frame)["kind"] == "draining":
                return True
    raise AssertionError
