"""What `dragon profile` measures of the link, against a real peer.

Covers `app.peer_link.connection` and `cli.models`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app.peer_link.connection import measure
from dragon.errors import HandshakeError, LinkError
from dragon.inference.tokenizer import Tokenizer
from dragon.link import registry
from dragon.link.address import PeerAddress
from dragon.link.control import MAX_PROBE, Hello
from dragon.retrieval import relevance
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256
from harness import services, warm
from harness.models import SMALL_MODEL
from harness.network_emulator import Network, relay
from harness.services import KEY, Service, Setup
from tests import tiny
from tests.samples import judge

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def hello() -> Hello:
    return Hello(
        tokenizer=Tokenizer.load(SMALL_MODEL).fingerprint,
        relevance=relevance.scale_of(PACKAGED_WEIGHTS_SHA256, judge().fingerprint),
        model="tiny",
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("probe") / "model")


@pytest.fixture(scope="module")
def peer(corpus: Path, small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    setup = Setup(tmp_path_factory.mktemp("peer"), {"DRAGON_MODEL": str(small)})
    with services.peer(setup, corpus) as running:
        yield running


def test_round_trip_through_a_slow_network(peer: Service, hello: Hello) -> None:
    with relay(peer.port, Network(0.06)) as network:
        found = measure(PeerAddress(f"ws://127.0.0.1:{network.port}/v1/link"), KEY, hello)
    assert found.rtt_s > 0.05
    for bandwidth in (found.sending, found.receiving):
        assert bandwidth is None or bandwidth > 0


def test_refusals_say_why(peer: Service, hello: Hello) -> None:
    address = PeerAddress(f"ws://127.0.0.1:{peer.port}/v1/link")
    with pytest.raises(HandshakeError, match="DRAGON_PEER_KEY"):
        measure(address, "wrong", hello)
    with pytest.raises(HandshakeError, match="DRAGON_MODEL"):
        measure(address, KEY, hello.model_copy(update={"tokenizer": "another"}))
    with pytest.raises(LinkError, match="no peer"):
        measure(PeerAddress("ws://127.0.0.1:9/v1/link"), KEY, hello)


def test_the_program_calibrates_and_finds_the_key_that_up_has_made(
    peer: Service, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "peer_key").write_text(f"{KEY}\n")
    settings = {"DATA_DIR": tmp_path, "PEER_PORT": peer.port, "MODEL": small}
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DRAGON_")}
    text, words = tmp_path / "text.txt", ["the", "lamp", "of", "oil", "is", "a", "key", "in"]
    text.write_text(" ".join(random.Random(1).choices(words, k=2048)))

    def profiled(*arguments: str) -> Any:
        env = ours | {f"DRAGON_{name}": str(value) for name, value in settings.items()}
        done = warm.run("cli", ["profile", *arguments], env, timeout=240)
        assert done.returncode == 0, done.stderr
        assert "left out" not in done.stderr
        return json.loads((tmp_path / "profile.json").read_text())

    found = profiled(str(text))
    assert found["rtt_s"] > 0
    assert found["calibration"]["windows"] == 8
    # Measuring again keeps what the texts said.
    assert profiled()["calibration"] == found["calibration"]


@pytest.mark.parametrize(
    "probe",
    [
        {"kind": "probe", "reply": MAX_PROBE + 1},
        {"kind": "probe", "payload": "." * (MAX_PROBE + 1), "reply": 0},
    ],
)
def test_a_probe_is_bounded(peer: Service, hello: Hello, probe: dict[str, object]) -> None:
    url = f"ws://127.0.0.1:{peer.port}/v1/link"
    headers = {"Authorization": f"Bearer {KEY}"}
    with connect(url, additional_headers=headers, compression=None) as connection:
        connection.send(registry.encode(hello))
        connection.send(json.dumps(probe))
        with pytest.raises(ConnectionClosed):
            list(connection)
