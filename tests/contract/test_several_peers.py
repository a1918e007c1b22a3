"""A device and two peers: one drains or is killed, and each text is the one it should be.

Covers `peer.main` and `peer.server`.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling.params import Sampling
from harness import reference, services
from harness.raw_link import WAIT_S, greeted, link, next_control, opening
from harness.reference import Passage
from harness.services import Floor, Service, Setup
from tests.contract.asking import Ask, ask_all, in_the_middle, streamed

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

TOKENS = 80
SEED = 5
QUESTION = "The capital of Kenya is"


class Fleet:
    """A device and two peers. `used` is the peer that the device goes to, `other` the other one."""

    def __init__(self, device: Service, peers: list[Service]) -> None:
        self.device = device
        found: list[Service] = []
        write(device, lambda: found or found.extend(peer for peer in peers if sessions(peer)))
        (self.used,) = found
        (self.other,) = (peer for peer in peers if peer is not self.used)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Iterator[list[Service]]:
    """A device and two peers."""
    data, floor, exact = tmp_path_factory.mktemp("fleet"), Floor(20), {"DRAGON_EXACT": "true"}
    with (
        services.peer(Setup(data / "a", exact, peer_floor=floor), corpus) as one,
        services.peer(Setup(data / "b", exact, peer_floor=floor), corpus) as two,
        services.device(Setup(data, exact, floor), one.port, two.port) as device,
    ):
        yield [device, one, two]


@pytest.fixture
def peers(running: list[Service]) -> list[Service]:
    """Both of them, whatever a test has ended."""
    _, *peers = running
    for peer in peers:
        if not peer.process.is_alive():
            peer.restart()
    return peers


@pytest.fixture
def fleet(running: list[Service], peers: list[Service]) -> Fleet:
    device = running[0]
    services.wait_joint(device)
    return Fleet(device, peers)


def sessions(peer: Service) -> float:
    return peer.metric("dragon_peer_sessions")


def write(device: Service, on_text: Callable[[], object]) -> tuple[str, dict[str, Any]]:
    """A text, and what is said of how it was written; `on_text` is called as it comes."""
    return streamed(device, Ask(QUESTION, "oneway", seed=SEED, tokens=TOKENS, raw=True), on_text)


def expected(told: dict[str, Any], tokenizer: Tokenizer, model: LanguageModel) -> str:
    """The text of the sequential reference, of these sources and this participation."""
    private, public = (
        [Passage(s["text"], s["score"]) for s in told["sources"] if s["side"] == side]
        for side in ("private", "public")
    )
    tokens = reference.write(
        model,
        tokenizer,
        QUESTION,
        private,
        public,
        Sampling(1.0, seed=SEED),
        TOKENS,
        raw=True,
        participation=told["participation"],
    )
    return tokenizer.decode([token for token in tokens if token not in tokenizer.end_ids])


def test_a_killed_peers_answer_is_joined_by_the_other(
    fleet: Fleet, tokenizer: Tokenizer, model: LanguageModel
) -> None:
    text, told = write(fleet.device, in_the_middle(fleet.used.kill))
    alone, joined = told["participation"]
    assert alone[0] == 0
    assert alone[1] < joined[0]
    assert joined[1] == TOKENS
    # Both peers have one model and one corpus: who they were is not to be seen in the text.
    assert text == expected(told, tokenizer, model)
    again, whole = write(fleet.device, lambda: None)
    assert whole["participation"] == [[0, TOKENS]]
    assert again == expected(whole, tokenizer, model)


def test_a_peer_that_drains_ends_its_answer_and_takes_no_other(
    fleet: Fleet, tokenizer: Tokenizer, model: LanguageModel
) -> None:
    undisturbed, _ = write(fleet.device, lambda: None)
    beside: list[tuple[str, dict[str, Any]]] = []

    def drain() -> None:
        fleet.used.signal(signal.SIGTERM)
        thread = threading.Thread(target=lambda: beside.append(write(fleet.device, lambda: None)))
        thread.start()
        threads.append(thread)

    threads: list[threading.Thread] = []
    text, told = write(fleet.device, in_the_middle(drain))
    threads[0].join()
    assert told["participation"] == [[0, TOKENS]]
    assert text == undisturbed == expected(told, tokenizer, model)
    ((other, said),) = beside
    assert (other, said["participation"]) == (text, [[0, TOKENS]])
    fleet.used.process.join(WAIT_S)
    assert fleet.used.process.exitcode == -signal.SIGTERM


def test_no_answer_notices_that_peers_are_replaced(fleet: Fleet, corpus: Path) -> None:
    ask = Ask(QUESTION, "oneway", seed=SEED, tokens=8, raw=True)
    over = threading.Event()

    def ask_on() -> list[list[list[int]]]:
        taken = []
        while not over.is_set():
            (reply,) = ask_all(fleet.device, [ask])
            taken.append([[0, reply.tokens]] if reply.participation == [[0, reply.tokens]] else [])
        return taken

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask_on) for _ in range(3)]
        try:
            fleet.used.signal(signal.SIGTERM)
            fleet.used.process.join(WAIT_S)
            write(fleet.device, lambda: None)
        finally:
            over.set()
        answers = [answer for each in asking for answer in each.result()]
    assert len(answers) > 3
    assert all(answers)


def test_a_draining_peer_is_not_ready_and_refuses_new_links(peers: list[Service]) -> None:
    peer = peers[0]
    with greeted(peer.port) as device:
        device.send(opening(1))
        assert next_control(device)["kind"] == "ready"
        peer.signal(signal.SIGTERM)
        while next_control(device)["kind"] != "draining":
            pass
        ready = httpx.get(f"{peer.url}/ready", timeout=WAIT_S)
        assert (ready.status_code, ready.json()["draining"]) == (503, True)
        with pytest.raises(InvalidStatus) as refused, link(peer.port):
            pass
        assert refused.value.response.status_code == 503
        device.send(opening(2))  # sent before it could know
        assert next_control(device)["kind"] == "ready"
        device.send(json.dumps({"kind": "draining"}))
        device.send(opening(3))
        fault = next_control(device)
        assert (fault["code"], fault["retry_s"]) == ("link.ending", 1)
        for stream in (1, 2):
            device.send(json.dumps({"kind": "close", "stream_id": stream, "reason": "done"}))
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            while True:
                device.recv(timeout=WAIT_S)
    peer.process.join(WAIT_S)
    assert peer.process.exitcode == -signal.SIGTERM


def test_a_peer_waits_no_longer_than_it_is_set_to(corpus: Path, tmp_path: Path) -> None:
    setup = Setup(tmp_path, {"DRAGON_PEER_DRAIN_DEADLINE": "0.5"}, peer_floor=Floor(20))
    with services.peer(setup, corpus) as peer, greeted(peer.port) as device:
        device.send(opening(1))
        assert next_control(device)["kind"] == "ready"
        peer.signal(signal.SIGTERM)
        peer.process.join(WAIT_S)
        assert peer.process.exitcode == -signal.SIGTERM
