"""`/ws/chat` on a real port, as the page uses it.

Covers `app.api.page.socket` and `app.api.page.parameters`.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from app.auth import COOKIE
from app.container import AppState
from app.peer_link.status import PeerStatus
from tests.app.api.page.conftest import Page, opened
from tests.fakes import FakeGeneration

SAY = {"type": "say", "id": "c1", "text": "Where is the key?"}


def text_of(frames: list[dict[str, Any]], answer_id: str) -> str:
    blocks = [f for f in frames if f["type"] == "block" and f["id"] == answer_id]
    return "".join({block["index"]: block["text"] for block in blocks}.values())


def test_an_answer(page: Page, generation: FakeGeneration) -> None:
    answer = page.begin(temperature=0.3, max_tokens=50, seed=7, private=True, mode="local")
    frames = page.until("done", of=answer)
    assert frames[0]["type"] == "sources"
    assert frames[0]["sources"][0]["side"] == "private"
    assert text_of(frames, answer) == generation.script
    (seam,) = [f for f in frames if f["type"] == "peer"]
    assert (seam["joint"], seam["position"]) == (False, 3)
    done = frames[-1]
    assert done["finish_reason"] == "stop"
    assert done["usage"]["completion_tokens"] > 0
    assert done["dragon"]["participation"] == [[0, 3]]
    (request,) = generation.requests
    assert (request.sampling.temperature, request.sampling.seed) == (0.3, 7)
    assert (request.max_tokens, request.private, request.mode) == (50, True, "local")


def test_several_answers_at_once(page: Page, generation: FakeGeneration) -> None:
    generation.delay = 0.01
    for name in ("a", "b"):
        page.put(SAY | {"id": name})
    frames: list[dict[str, Any]] = []
    while sum(f["type"] == "done" for f in frames) < 2:
        frames.append(page.read())
    answers = [f["answer"]["id"] for f in frames if f["type"] == "began"]
    assert [text_of(frames, answer) for answer in answers] == [generation.script] * 2


def test_stopping_one_of_two(page: Page, generation: FakeGeneration) -> None:
    generation.delay = 0.05
    generation.script = "word " * 600
    stopped, other = page.begin(), page.begin()
    page.until("block", of=stopped)
    for answer_id in (stopped, stopped, "unknown"):
        page.put({"type": "stop", "id": answer_id})
    done = page.until("done", of=stopped)[-1]
    assert done["finish_reason"] == "cancelled"
    assert done["usage"]["prompt_tokens"] == len(generation.requests[0].conversation)
    assert 0 < done["usage"]["completion_tokens"] < 600
    assert generation.cancelled == 1
    generation.delay = 0.0
    frames = page.until("done", of=other)
    assert frames[-1]["finish_reason"] == "stop"
    assert not any(f.get("id") == stopped for f in frames)


def test_stopping_at_once(page: Page, generation: FakeGeneration) -> None:
    generation.silence = 30.0
    for _ in range(8):
        answer = page.begin()
        page.put({"type": "stop", "id": answer})
        assert page.until("done", of=answer)[-1]["finish_reason"] == "cancelled"
    assert generation.active == 0


def test_bad_frames_leave_the_socket_alive(page: Page) -> None:
    for frame, answer_id, param in (
        ("{", None, None),
        (b"\xff", None, None),
        ("null", None, None),
        ("[1]", None, None),
        ("[" * 100_000, None, None),
        ({"type": "dance", "id": "c1"}, "c1", None),
        ({"id": "c1"}, "c1", None),
        (SAY | {"id": 5}, None, "id"),
        (SAY | {"id": ""}, "", "id"),
        (SAY | {"id": "x" * 65}, "x" * 64, "id"),
        ({"type": "say", "id": "c1"}, "c1", "text"),
        (SAY | {"text": " "}, "c1", "text"),
        (SAY | {"params": {"temperature": 9}}, "c1", "params.temperature"),
        (SAY | {"params": {"mode": "majority"}}, "c1", "params.mode"),
        (SAY | {"params": {"colour": "red"}}, "c1", "params.colour"),
        ({"type": "stop"}, None, "id"),
    ):
        page.put(frame)
        reply = page.read()
        assert (reply["type"], reply["id"]) == ("error", answer_id), frame
        assert reply["error"].keys() - {"localizable"} == {"message", "type", "param", "code"}
        assert reply["error"]["type"] == "invalid_request_error"
        assert reply["error"]["param"] == param
    assert page.until("done", of=page.begin())[-1]["finish_reason"] == "stop"


def test_too_many_answers_at_once(page: Page, generation: FakeGeneration) -> None:
    generation.silence = 30.0
    answers = [page.begin() for _ in range(32)]
    page.put(SAY)
    assert page.until("error", of="c1")[-1]["error"]["code"] == "overloaded"
    for answer in answers:
        page.put({"type": "stop", "id": answer})
    page.until("done", of=answers[-1])


def test_the_peer_is_reported_when_it_changes(page: Page, generation: FakeGeneration) -> None:
    generation.peer_state = PeerStatus("connected", 13.0)  # a round trip alone is no change
    generation.peer_state = PeerStatus("refused", None, "another tokenizer")
    assert page.read() == {
        "type": "status",
        "peer": {"state": "refused", "rtt_ms": None, "detail": "another tokenizer"},
    }


def test_a_frame_over_the_limit_ends_the_socket_only(page: Page, address: str) -> None:
    # The header alone: a payload nobody reads would have the kernel reset the connection, and the
    # reason with it.
    page.socket.socket.sendall(struct.pack("!BBQ", 0x81, 0xFF, 2 << 20) + bytes(4))
    with pytest.raises(ConnectionClosed) as caught:
        page.until("done")
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009
    with opened(address):
        pass


def test_strangers_are_refused_before_the_socket_opens(address: str, state: AppState) -> None:
    good = {"Cookie": f"{COOKIE}={state.auth.sessions.begin()}"}
    for headers, origin, status in (
        ({}, None, 401),
        ({"Cookie": f"{COOKIE}=wrong"}, None, 401),
        (good, "http://evil.example", 403),
        (good, "http://127.0.0.1:1", 403),
    ):
        with pytest.raises(InvalidStatus) as caught:
            connect(f"ws://{address}/ws/chat", additional_headers=headers, origin=origin)
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body)["error"]["message"]


def test_another_host_is_refused(address: str, state: AppState) -> None:
    reply = httpx.get(
        f"http://{address}/ws/chat",
        headers={
            "Host": "evil.example",
            "Cookie": f"{COOKIE}={state.auth.sessions.begin()}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version": "13",
        },
        timeout=60,
    )
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_host"
