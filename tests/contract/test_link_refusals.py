"""What the peer refuses on its link, and that it stays well: real sockets, raw frames.

Covers `peer.server` and `peer.context`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dragon.inference.scoring import CREDIT, CloudScore
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.link import batching, registry
from dragon.link import control as messages
from dragon.link.bulk import Bulk
from dragon.link.kinds import BinaryKind
from dragon.models import EMBEDDED_MODEL
from dragon.protocol.messages import Draft, Target
from dragon.retrieval import relevance
from dragon.retrieval.embedder import PACKAGED_WEIGHTS_SHA256
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import services
from harness.services import KEY, Service, Setup
from tests import tiny
from tests.samples import reranker

pytestmark = pytest.mark.services
WAIT_S = 60
ANOTHER = "a-key-of-another-household"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(EMBEDDED_MODEL)


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


@contextmanager
def link(peer: Service, key: str = KEY, **also: str) -> Iterator[ClientConnection]:
    url = f"ws://127.0.0.1:{peer.port}/v1/link"
    headers = {"Authorization": f"Bearer {key}", **also}
    with connect(url, additional_headers=headers, compression=None, close_timeout=1) as connection:
        yield connection


def hello(fitting: Tokenizer, **changes: Any) -> registry.Frame:
    own = messages.Hello(
        tokenizer=fitting.fingerprint,
        relevance=relevance.scale_of(PACKAGED_WEIGHTS_SHA256, reranker().fingerprint),
        model="tiny",
    )
    return registry.encode(own.model_copy(update=changes))


def opening(tokenizer: Tokenizer, generation: int, tokens: int = 400) -> registry.Frame:
    return registry.encode(
        messages.Open(
            conversation=tuple(tokenizer.conversation([Message("user", "Where is Nairobi?")])),
            raw=False,
            query="Where is Nairobi?",
            mode=Mode.COUPLED,
            temperature=1.0,
            top_p=1.0,
            seed=1,
            stream=0,
            max_tokens=tokens,
            top_k=1,
            catch_up=False,
        ),
        generation,
    )


def control(connection: ClientConnection) -> dict[str, Any]:
    """The next control message but pings."""
    while True:
        frame = connection.recv(timeout=WAIT_S)
        if isinstance(frame, str) and (message := json.loads(frame))["kind"] != "ping":
            return dict(message)


@contextmanager
def greeted(peer: Service, tokenizer: Tokenizer, key: str = KEY) -> Iterator[ClientConnection]:
    with link(peer, key) as connection:
        connection.send(hello(tokenizer))
        assert control(connection)["kind"] == "hello"
        yield connection


def test_a_wrong_key_is_told_what_to_set(peer: Service) -> None:
    with pytest.raises(InvalidStatus) as refused, link(peer, "wrong"):
        pass
    assert refused.value.response.status_code == 401
    assert b"DRAGON_PEER_KEY" in (refused.value.response.body or b"")
    assert "refused a link from 127.0.0.1: wrong key" in peer.log.read_text()


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"version": messages.PROTOCOL_VERSION + 1}, "same release"),
        ({"tokenizer": "another"}, "DRAGON_MODEL"),
        ({"relevance": "another"}, "DRAGON_EMBEDDER"),
        ({"noise": "another"}, "noise"),
    ],
)
def test_a_side_that_does_not_fit_is_told_what_to_change(
    peer: Service, tokenizer: Tokenizer, changes: dict[str, Any], advice: str
) -> None:
    with link(peer) as connection:
        connection.send(hello(tokenizer, **changes))
        fault = control(connection)
        assert fault["kind"] == "error"
        assert advice in fault["message"]
        with pytest.raises(ConnectionClosed):
            control(connection)


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
        os.urandom(4000),
        registry.encode(Target(0, 0, 3, True, True, Role.DEVICE), 1)[:9],
        b"\x05" + bytes(40),
        bytes([BinaryKind.BUNDLE]) + b"\x02\x00\x00\x00x",
        *batching.messages([b"\x01short", b"\x02short"]),
        '{"kind": "score_text", "stream_id": 1}',
        "x" * (messages.MAX_CONTROL_BYTES + 1),
        b"\x01" * 100_000,
    ],
    ids=lambda frame: f"{type(frame).__name__}-{len(frame)}",
)
def test_a_bad_frame_ends_its_link_and_no_other(
    peer: Service, tokenizer: Tokenizer, frame: str | bytes
) -> None:
    with greeted(peer, tokenizer) as good, greeted(peer, tokenizer) as bad:
        good.send(opening(tokenizer, 1))
        assert control(good)["kind"] == "ready"
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            bad.send(frame)
            while True:
                bad.recv(timeout=WAIT_S)
        # The other device's answer goes on: its cloud side sends drafts.
        while isinstance(good.recv(timeout=WAIT_S), str):
            pass
    assert httpx.get(f"{peer.url}/ready", timeout=60).status_code == 200


def opened(connection: ClientConnection, tokenizer: Tokenizer, count: int) -> list[str]:
    """What becomes of so many answers, in order."""
    for stream in range(1, count + 1):
        connection.send(opening(tokenizer, stream))
    kinds: dict[int, str] = {}
    while len(kinds) < count:
        message = control(connection)
        kinds[message["stream_id"]] = message.get("code", message["kind"])
    return [kinds[stream] for stream in sorted(kinds)]


def test_a_key_has_at_most_half_of_the_sessions(peer: Service, tokenizer: Tokenizer) -> None:
    with greeted(peer, tokenizer) as one, greeted(peer, tokenizer, ANOTHER) as another:
        assert opened(one, tokenizer, 3) == ["ready", "ready", "overloaded"]
        with greeted(peer, tokenizer) as second:  # another connection is no other key
            assert opened(second, tokenizer, 1) == ["overloaded"]
        assert opened(another, tokenizer, 3) == ["ready", "ready", "overloaded"]


def test_a_page_of_a_browser_is_not_let_in(peer: Service) -> None:
    with pytest.raises(InvalidStatus) as refused, link(peer, Origin="https://example.org"):
        pass
    assert b"no page of a browser" in (refused.value.response.body or b"")


def test_a_device_that_does_not_read_is_hung_up_on(peer: Service, tokenizer: Tokenizer) -> None:
    probe = registry.encode(messages.Probe(reply=messages.MAX_PROBE))
    with link(peer) as connection:
        connection.send(hello(tokenizer))
        with suppress(ConnectionClosed):
            for _ in range(1000):
                connection.send(probe)
        # Reading here, even to see the end, would be just what it is hung up on for not doing.
        deadline = time.monotonic() + WAIT_S
        while "hanging up on a device: it does not read" not in peer.log.read_text():
            assert time.monotonic() < deadline, peer.log.read_text()
            time.sleep(0.05)


def test_a_flood_of_frames_keeps_nobody_out(peer: Service, tokenizer: Tokenizer) -> None:
    side = Side(WireDistribution.of([5], [SCALE]), 0)
    draft = registry.encode(Draft(99, 0, 0, 0, 0, 5, 1000, side), 1)
    assert isinstance(draft, bytes)
    count = batching.MAX_BYTES // (len(draft) + 4) - 1
    (bundle,) = batching.messages([draft] * count)
    with greeted(peer, tokenizer) as flooding, greeted(peer, tokenizer, ANOTHER) as other:
        flooding.send(opening(tokenizer, 1))
        assert control(flooding)["kind"] == "ready"
        over = threading.Event()

        def flood() -> None:
            with suppress(ConnectionClosed):
                while not over.is_set():
                    flooding.send(bundle)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            for _ in range(10):
                assert httpx.get(f"{peer.url}/health", timeout=WAIT_S).status_code == 200
            assert opened(other, tokenizer, 1) == ["ready"]
        finally:
            over.set()
            flooding.close()
            thread.join()


def test_a_conversation_over_the_context_fails_its_answer_only(
    peer: Service, tokenizer: Tokenizer
) -> None:
    with greeted(peer, tokenizer) as connection:
        long = json.loads(opening(tokenizer, 5))
        long["conversation"] = [7] * tiny.CONTEXT
        connection.send(json.dumps(long))
        fault = control(connection)
        assert (fault["stream_id"], fault["code"]) == (5, "context_length_exceeded")
        connection.send(opening(tokenizer, 6))
        assert control(connection)["kind"] == "ready"


def scoring(generation: int, tokens: int) -> registry.Frame:
    return registry.encode(
        messages.ScoreText(
            conversation=(7,), text=(8,) * tokens, raw=True,
            query="", top_k=0, prompt=tokens + 1, max_tokens=0,
        ),
        generation,
    )  # fmt: skip


def test_scores_are_sent_as_they_are_taken(peer: Service, tokenizer: Tokenizer) -> None:
    size = CloudScore.size(1, tokenizer.vocab_size)
    with greeted(peer, tokenizer) as connection:

        def bulk(until: int) -> bytes:
            data = b""
            while len(data) < until:
                frame = connection.recv(timeout=WAIT_S)
                if isinstance(frame, bytes):
                    stream, part = registry.decode(frame, Role.CLOUD, tokenizer.vocab_size)
                    assert stream == 3
                    assert isinstance(part, Bulk)
                    data += part.data
            return data

        connection.send(scoring(3, CREDIT + 5))
        assert control(connection)["kind"] == "scoring"
        assert len(bulk(CREDIT * size)) == CREDIT * size
        connection.send(registry.encode(messages.Ping(number=1)))
        # Nothing more before some is taken: a binary frame would be no JSON.
        while json.loads(connection.recv(timeout=WAIT_S))["kind"] != "pong":
            pass
        connection.send(registry.encode(messages.ScoreTaken(), 3))
        score = CloudScore.unpack(bulk(size), 1)
        assert len(score.logprobs) == tokenizer.vocab_size
        connection.send(registry.encode(messages.Close(reason="enough"), 3))
        connection.send(scoring(4, tiny.CONTEXT))
        fault = control(connection)
        assert (fault["stream_id"], fault["code"]) == (4, "context_length_exceeded")
