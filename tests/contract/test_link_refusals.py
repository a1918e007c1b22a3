"""What the peer refuses on its link, and that it stays well: real sockets, raw frames.

Covers `peer.server`, `peer.context` and `dragon.link.share`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from dragon.inference.scoring import CREDIT, CloudScore
from dragon.link import batching, control, registry
from dragon.link.bodies import BinaryKind, Bulk
from dragon.protocol.messages import Draft, Target
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import services
from harness.raw_link import WAIT_S, greeted, hello, link, next_control, opening, tokenizer
from harness.services import KEY, Service, Setup
from tests import tiny
from tests.contract.asking import eventually

pytestmark = pytest.mark.services
ANOTHER = "a-key-of-another-household"


@pytest.fixture(scope="module")
def peer(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("refusals")
    setup = Setup(
        data,
        {
            "DRAGON_MODEL": str(tiny.save(data / "model")),
            "DRAGON_PEER_MAX_SESSIONS": "4",
            "DRAGON_PEER_KEYS": f"{KEY},{ANOTHER}",
        },
    )
    with services.peer(setup, corpus) as running:
        yield running


def test_a_wrong_key_is_told_what_to_set(peer: Service) -> None:
    with pytest.raises(InvalidStatus) as refused, link(peer.port, "wrong"):
        pass
    assert refused.value.response.status_code == 401
    assert b"DRAGON_PEER_KEY" in (refused.value.response.body or b"")
    assert "refused a link from 127.0.0.1: wrong key" in peer.log.read_text()


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"version": control.PROTOCOL_VERSION + 1}, "same release"),
        ({"tokenizer": "another"}, "DRAGON_MODEL"),
        ({"relevance": "another"}, "DRAGON_EMBEDDER"),
        ({"noise": "another"}, "noise"),
    ],
)
def test_a_side_that_does_not_fit_is_told_what_to_change(
    peer: Service, changes: dict[str, Any], advice: str
) -> None:
    with link(peer.port) as connection:
        connection.send(hello(**changes))
        fault = next_control(connection)
        assert fault["kind"] == "error"
        assert advice in fault["message"]
        assert fault["code"] == f"handshake.{next(iter(changes))}"
        with pytest.raises(ConnectionClosed):
            next_control(connection)


@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "{}",
        '{"kind": "nonsense"}',
        '{"kind": "open"}',
        '{"kind": "ready", "stream_id": 1, "documents": [], "log_h": 0.0, "horizon": 1}',
        b"",
        b"\xff" * 50,
        b"\x01short",
        registry.encode(Target(0, 0, 3, True, True, Role.DEVICE), 1)[:9],
        b"\x05" + bytes(40),
        bytes([BinaryKind.BUNDLE]) + b"\x02\x00\x00\x00x",
        *batching.messages([b"\x01short", b"\x02short"]),
        "x" * (control.MAX_CONTROL_BYTES + 1),
        b"\x01" * 100_000,
    ],
    ids=lambda frame: f"{type(frame).__name__}-{len(frame)}",
)
def test_a_bad_frame_ends_its_link_and_no_other(peer: Service, frame: str | bytes) -> None:
    with greeted(peer.port) as good, greeted(peer.port) as bad:
        good.send(opening(1))
        assert next_control(good)["kind"] == "ready"
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            bad.send(frame)
            while True:
                bad.recv(timeout=WAIT_S)
        # The other device's answer goes on: its cloud side sends drafts.
        while isinstance(good.recv(timeout=WAIT_S), str):
            pass
    assert httpx.get(f"{peer.url}/ready", timeout=60, verify=False).status_code == 200


def opened(connection: ClientConnection, count: int) -> list[str]:
    """What becomes of so many answers, in order."""
    for stream in range(1, count + 1):
        connection.send(opening(stream))
    kinds: dict[int, str] = {}
    while len(kinds) < count:
        message = next_control(connection)
        kinds[message["stream_id"]] = message.get("code", message["kind"])
    return [kinds[stream] for stream in sorted(kinds)]


def test_a_key_has_at_most_half_of_the_sessions(peer: Service) -> None:
    with greeted(peer.port) as one, greeted(peer.port, ANOTHER) as another:
        assert opened(one, 3) == ["ready", "ready", "peer.answers"]
        with greeted(peer.port) as second:  # another connection is no other key
            assert opened(second, 1) == ["peer.answers"]
        assert opened(another, 3) == ["ready", "ready", "peer.answers"]


def test_a_page_of_a_browser_is_not_let_in(peer: Service) -> None:
    with pytest.raises(InvalidStatus) as refused, link(peer.port, Origin="https://example.org"):
        pass
    assert b"pages in a browser are not admitted" in (refused.value.response.body or b"")


def test_a_device_that_does_not_read_is_hung_up_on(peer: Service) -> None:
    probe = registry.encode(control.Probe(reply=control.MAX_PROBE))
    with link(peer.port) as connection:
        connection.send(hello())
        with suppress(ConnectionClosed):
            for _ in range(1000):
                connection.send(probe)
        # Reading here, even to see the end, would be just what it is hung up on for not doing.
        told = "hanging up on a device: it does not read"
        eventually(lambda: told in peer.log.read_text())


def test_a_flood_of_frames_keeps_nobody_out(peer: Service) -> None:
    side = Side(WireDistribution.of([5], [SCALE]), 0)
    draft = registry.encode(Draft(99, 0, 0, 0, 0, 5, 1000, side), 1)
    assert isinstance(draft, bytes)
    count = batching.MAX_BYTES // (len(draft) + 4) - 1
    (bundle,) = batching.messages([draft] * count)
    with greeted(peer.port) as flooding:
        flooding.send(opening(1))
        assert next_control(flooding)["kind"] == "ready"
        over = threading.Event()

        def flood() -> None:
            with suppress(ConnectionClosed):
                while not over.is_set():
                    flooding.send(bundle)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            for _ in range(10):
                assert httpx.get(f"{peer.url}/health", timeout=60, verify=False).status_code == 200
            with greeted(peer.port, ANOTHER) as other:
                assert opened(other, 1) == ["ready"]
        finally:
            over.set()
            flooding.close()
            thread.join()


def test_a_conversation_over_the_context_fails_its_answer_only(peer: Service) -> None:
    with greeted(peer.port) as connection:
        long = json.loads(opening(5))
        long["conversation"] = [7] * tiny.CONTEXT
        connection.send(json.dumps(long))
        fault = next_control(connection)
        assert (fault["stream_id"], fault["code"]) == (5, "context.document")
        connection.send(opening(6))
        assert next_control(connection)["kind"] == "ready"


def scoring(generation: int, tokens: int) -> registry.Frame:
    return registry.encode(
        control.ScoreText(
            conversation=(7,), text=(8,) * tokens, raw=True,
            query="", top_k=0, prompt=tokens + 1, max_tokens=0,
        ),
        generation,
    )  # fmt: skip


def test_scores_are_sent_as_they_are_taken(peer: Service) -> None:
    size = CloudScore.size(1, tokenizer().vocab_size)
    with greeted(peer.port) as connection:

        def bulk(until: int) -> bytes:
            data = b""
            while len(data) < until:
                frame = connection.recv(timeout=WAIT_S)
                if isinstance(frame, bytes):
                    stream, part = registry.decode(frame, Role.CLOUD, tokenizer().vocab_size)
                    assert stream == 3
                    assert isinstance(part, Bulk)
                    data += part.data
            return data

        connection.send(scoring(3, CREDIT + 5))
        assert next_control(connection)["kind"] == "scoring"
        assert len(bulk(CREDIT * size)) == CREDIT * size
        connection.send(registry.encode(control.Ping(number=1)))
        # Nothing more before some is taken: a binary frame would be no JSON.
        while json.loads(connection.recv(timeout=WAIT_S))["kind"] != "pong":
            pass
        connection.send(registry.encode(control.ScoreTaken(), 3))
        score = CloudScore.unpack(bulk(size), 1)
        assert len(score.logprobs) == tokenizer().vocab_size
        connection.send(registry.encode(control.Close(reason="enough"), 3))
        connection.send(scoring(4, tiny.CONTEXT))
        fault = next_control(connection)
        assert (fault["stream_id"], fault["code"]) == (4, "context_length_exceeded")
