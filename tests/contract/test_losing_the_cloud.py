"""The peer dies, stops or vanishes in mid-answer: the text goes on, says so once, and ends.

Covers `app.generation.answer`, `app.generation.joint_run` and `app.peer_link.client`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import services
from harness.services import Floor, Setup, wait_joint
from tests import tiny
from tests.contract.chatting import Chat, chat
from tests.contract.conftest import Pair, linked

pytestmark = pytest.mark.services
TOKENS = 300
# The stall limit, the time to notice, and room for a busy machine: far below a dead answer.
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A model that never ends by itself, and steps slow enough for faults to fall in between.

    Its context is short: passages in rows leave room for a long answer.
    """
    data = tmp_path_factory.mktemp("losing")
    model = tiny.save(data / "model")
    return Setup(data, {"DRAGON_MODEL": str(model)}, Floor(20), Floor(20), rows=True)


@pytest.fixture(scope="module")
def slow(setup: Setup, corpus: Path) -> Iterator[Pair]:
    with linked(setup, corpus, rtt_s=0.02) as pair:
        yield pair


def begin(pair: Pair, talk: Chat, tokens: int = TOKENS) -> None:
    """An answer that both sides are writing."""
    wait_joint(pair.device)
    talk.ask("What is the capital of Kenya?", max_tokens=tokens, seed=3, temperature=1.0)
    talk.until(lambda event: event["type"] == "peer" and event["joint"])
    talk.tokens(5)


def check_alone_to_the_end(talk: Chat) -> None:
    done = talk.done()
    assert done["finish_reason"] == "length"
    assert done["usage"]["completion_tokens"] == TOKENS
    ((start, end),) = done["dragon"]["participation"]
    assert start == 0
    assert 0 < end < TOKENS
    assert talk.peer_changes() == [True, False]
    assert talk.longest_silence() < PATIENCE_S


@pytest.mark.parametrize("fault", ["stopped", "black hole"])
def test_a_silent_peer_is_left_behind_and_let_in_again(slow: Pair, fault: str) -> None:
    def fail() -> None:
        slow.peer.signal(signal.SIGSTOP) if fault == "stopped" else slow.network.pause()

    def heal() -> None:
        slow.peer.signal(signal.SIGCONT) if fault == "stopped" else slow.network.resume()

    with chat(slow.device) as talk:
        begin(slow, talk)
        fail()
        try:
            check_alone_to_the_end(talk)
        finally:
            heal()
        # Back while an answer is being written: it becomes joint again, and so is the next one.
        begin(slow, talk, tokens=400)
        fail()
        try:
            talk.until(lambda event: event["type"] == "peer" and not event["joint"])
        finally:
            heal()
        talk.until(lambda event: event["type"] == "peer" and event["joint"])
        done = talk.done()
        assert talk.peer_changes() == [True, False, True]
        assert len(done["dragon"]["participation"]) == 2
        begin(slow, talk, tokens=20)
        assert talk.done()["dragon"]["participation"] == [[0, 20]]


@pytest.mark.parametrize("within_a_frame", [False, True])
def test_a_cut_connection_is_made_again(slow: Pair, within_a_frame: bool) -> None:
    with chat(slow.device) as talk:
        begin(slow, talk)
        slow.network.limit(up_bytes=1001) if within_a_frame else slow.network.cut()
        done = talk.done()
        assert talk.peer_changes() == [True, False, True]
        assert done["usage"]["completion_tokens"] == TOKENS


def test_a_killed_peer_and_its_successor(setup: Setup, corpus: Path) -> None:
    port = services.free_port()
    setup = replace(setup, data=setup.data / "successor")
    with services.peer(setup, corpus, port) as peer, services.device(setup, port) as device:
        wait_joint(device)
        with chat(device) as talk:
            talk.ask("What is the capital of Kenya?", max_tokens=TOKENS, seed=3)
            talk.until(lambda event: event["type"] == "peer" and event["joint"])
            talk.tokens(5)
            peer.kill()
            check_alone_to_the_end(talk)
            with services.peer(setup, corpus, port):
                wait_joint(device)
                talk.ask("What is the capital of Kenya?", max_tokens=20, seed=3)
                assert talk.done()["dragon"]["participation"] == [[0, 20]]
                # Once, however often it was tried meanwhile.
                logged = device.log.read_text()
                assert logged.count("no link to the cloud peer") == 1


def test_whole_answers_are_the_devices_own_without_the_cloud(slow: Pair) -> None:
    """Sequencewise: nothing of the cloud is in an answer before all of it is."""
    question = "What is the capital of Kenya?"
    texts = {}
    for mode in ("local", "sequencewise"):
        wait_joint(slow.device)
        with chat(slow.device) as talk:
            talk.ask(question, mode=mode, max_tokens=100, seed=3, temperature=1.0)
            if mode == "sequencewise":
                talk.until(lambda event: event["type"] == "peer" and event["joint"])
                slow.network.cut()
            done = talk.done()
        assert done["dragon"]["participation"] == []
        assert done["usage"]["completion_tokens"] == 100
        texts[mode] = talk.text
    assert talk.peer_changes() == [True, False]
    assert texts["local"] == texts["sequencewise"] != ""
