"""Named keys of a running peer: what each may have, and that a revoked one is out at once.

Covers `cli.keys`, `peer.main`, `peer.server` and `peer.context`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragon.link import control, registry
from harness import services
from harness.raw_link import WAIT_S, greeted, link, next_control, opening
from harness.services import KEY, Service, Setup
from tests import tiny
from tests.contract.asking import dragon

pytestmark = pytest.mark.services
OUT_S = 2.0


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    data = tmp_path_factory.mktemp("keys")
    return Setup(data, {"DRAGON_MODEL": str(tiny.save(data / "model"))})


@pytest.fixture(scope="module")
def peer(corpus: Path, setup: Setup) -> Iterator[Service]:
    with services.peer(setup, corpus) as running:
        yield running


def keys(setup: Setup, *arguments: str) -> str:
    """What the program prints."""
    done = dragon("peer", "keys", *arguments, DRAGON_DATA_DIR=str(setup.data / "peer"))
    done.check_returncode()
    return done.stdout.strip()


def close(stream: int) -> registry.Frame:
    return registry.encode(control.Close(reason="done"), stream)


def wait_until_known(peer: Service, key: str) -> None:
    """The peer looks at its keys twice a second."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with greeted(peer.port, key):
                return
        except InvalidStatus:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def of_key(peer: Service, metric: str, name: str) -> float:
    wanted = f'{metric}{{key="{name}"}} '
    metrics = httpx.get(f"{peer.url}/metrics", timeout=60, verify=False).text
    for line in metrics.splitlines():
        if line.startswith(wanted):
            return float(line.removeprefix(wanted))
    return 0.0


def test_a_revoked_key_is_out_in_mid_answer(peer: Service, setup: Setup) -> None:
    anna, bela = keys(setup, "add", "anna"), keys(setup, "add", "bela")
    wait_until_known(peer, bela)
    with (
        greeted(peer.port, anna) as out,
        greeted(peer.port, bela) as in_,
        greeted(peer.port) as set_,
    ):
        for connection in (out, in_, set_):
            connection.send(opening(1))
            assert next_control(connection)["kind"] == "ready"
        keys(setup, "revoke", "anna")
        revoked = time.monotonic()
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            while True:
                frame = out.recv(timeout=WAIT_S)
                assert isinstance(frame, bytes) or "error" not in frame or "revoked" in frame
        assert time.monotonic() - revoked < OUT_S
        assert of_key(peer, "dragon_peer_key_sessions", "anna") == 0
        with pytest.raises(InvalidStatus) as refused, link(peer.port, anna):
            pass
        assert refused.value.response.status_code == 401
        # The others' answers go on.
        for connection in (in_, set_):
            while isinstance(connection.recv(timeout=WAIT_S), str):
                pass
    keys(setup, "revoke", "bela")


def test_a_key_has_its_answers_at_once_and_its_tokens_a_day(peer: Service, setup: Setup) -> None:
    clara = keys(setup, "add", "clara", "--answers", "1", "--tokens-a-day", "5")
    wait_until_known(peer, clara)
    with greeted(peer.port, clara) as device:
        device.send(opening(1))
        assert next_control(device)["kind"] == "ready"
        device.send(opening(2))
        fault = next_control(device)  # one at once
        assert (fault["code"], fault["values"]) == ("peer.answers", {"count": 1})
        assert 1 <= fault["retry_s"] <= 30
        device.send(close(1))
        device.send(opening(3))
        fault = next_control(device)
        assert "5 tokens of today" in fault["message"]
        assert (fault["code"], fault["values"]) == ("peer.tokens", {"count": 5})
        assert 1 <= fault["retry_s"] <= 24 * 60 * 60
        # By its name, and never by what it is.
        assert of_key(peer, "dragon_peer_key_answers_total", "clara") == 1
        assert of_key(peer, "dragon_peer_key_refusals_total", "clara") == 2
        assert of_key(peer, "dragon_peer_key_tokens_total", "clara") >= 5
        metrics = httpx.get(f"{peer.url}/metrics", timeout=60, verify=False).text
        assert clara not in metrics
        assert KEY not in metrics
    assert clara not in peer.log.read_text()
    # More is given while it runs.
    listed = keys(setup, "list")
    assert "clara" in listed
    keys(setup, "revoke", "clara")
    again = keys(setup, "add", "clara")
    wait_until_known(peer, again)
    with greeted(peer.port, again) as device:
        device.send(opening(1))
        assert next_control(device)["kind"] == "ready"


def test_use_of_today_outlasts_a_restart(corpus: Path, setup: Setup, tmp_path: Path) -> None:
    own = Setup(tmp_path, setup.env)
    dora = keys(own, "add", "dora", "--tokens-a-day", "5")
    for expected in ("ready", "error"):
        with services.peer(own, corpus) as peer, greeted(peer.port, dora) as device:
            device.send(opening(1))
            assert next_control(device)["kind"] == expected
            device.send(close(1))


def test_what_cannot_be_done_ends_with_one_line(setup: Setup) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        keys(setup, "revoke", "nobody")
    assert failed.value.stderr.splitlines() == ["dragon: there is no key nobody; `list` lists them"]
