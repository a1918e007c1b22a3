"""`/ws/chat` on a real port, as the page uses it.

Covers `app.api.page.frames` and `app.api.page.parameters`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.auth import COOKIE
from app.container import AppState
from app.peer_link.status import PeerStatus
from tests.app.conftest import KEY, wait_until
from tests.fakes import FakeGeneration

MESSAGES = [{"role": "user", "content": "Where is the key?"}]
ASK = {"type": "ask", "id": "c1", "messages": MESSAGES}


class Page:
    """One side of the socket, in frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, frame: Any) -> None:
        self.socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def read(self) -> dict[str, Any]:
        return json.loads(self.socket.recv(timeout=60))

    def until(self, kind: str, answer_id: str | None = "c1") -> list[dict[str, Any]]:
        """Frames up to the first of this kind about this answer."""
        frames = [self.read()]
        while not (frames[-1]["type"] == kind and frames[-1].get("id") == answer_id):
            frames.append(self.read())
        return frames


@pytest.fixture
def page(address: str, state: AppState) -> Iterator[Page]:
    headers = {"Cookie": f"{COOKIE}={state.auth.sessions.begin()}"}
    with connect(
        f"ws://{address}/ws/chat", additional_headers=headers, origin=f"http://{address}"
    ) as socket:
        page = Page(socket)
        assert page.read()["type"] == "status"
        yield page


def text_of(frames: list[dict[str, Any]], answer_id: str = "c1") -> str:
    return "".join(f["text"] for f in frames if f["type"] == "token" and f["id"] == answer_id)


def test_an_answer(page: Page, generation: FakeGeneration) -> None:
    params = {"temperature": 0.3, "max_tokens": 50, "seed": 7, "private": True, "mode": "local"}
    page.send(ASK | {"params": params})
    frames = page.until("done")
    assert frames[0]["type"] == "sources"
    assert frames[0]["sources"][0]["side"] == "private"
    assert text_of(frames) == generation.script
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
    for answer_id in ("a", "b"):
        page.send(ASK | {"id": answer_id})
    frames: list[dict[str, Any]] = []
    while sum(f["type"] == "done" for f in frames) < 2:
        frames.append(page.read())
    assert text_of(frames, "a") == text_of(frames, "b") == generation.script


def test_stopping_one_of_two(page: Page, generation: FakeGeneration) -> None:
    generation.delay = 0.05
    generation.script = "word " * 600
    page.send(ASK)
    page.send(ASK | {"id": "other"})
    page.until("token")
    page.send({"type": "stop", "id": "c1"})
    page.send({"type": "stop", "id": "c1"})
    page.send({"type": "stop", "id": "unknown"})
    frames = page.until("done")
    assert frames[-1]["finish_reason"] == "cancelled"
    assert frames[-1]["usage"]["prompt_tokens"] == len(generation.requests[0].conversation)
    assert 0 < frames[-1]["usage"]["completion_tokens"] < 600
    assert generation.cancelled == 1
    generation.delay = 0.0
    frames = page.until("done", "other")
    assert frames[-1]["finish_reason"] == "stop"
    assert not any(f.get("id") == "c1" for f in frames)


def test_stopping_at_once(page: Page, generation: FakeGeneration) -> None:
    generation.silence = 30.0
    for number in range(20):
        page.send(ASK | {"id": f"c{number}"})
        page.send({"type": "stop", "id": f"c{number}"})
        assert page.until("done", f"c{number}")[-1]["finish_reason"] == "cancelled"
    assert generation.active == 0


def test_leaving_ends_every_answer(page: Page, generation: FakeGeneration) -> None:
    generation.delay = 0.05
    generation.script = "word " * 2000
    for answer_id in ("a", "b", "c"):
        page.send(ASK | {"id": answer_id})
    page.until("token", "c")
    page.socket.close()
    wait_until(lambda: generation.active == 0)
    assert generation.cancelled == 3


@pytest.mark.parametrize(
    ("frame", "answer_id", "param"),
    [
        ("{", None, None),
        (b"\xff", None, None),
        ("null", None, None),
        ("[1]", None, None),
        ("[" * 100_000, None, None),
        ({"type": "dance", "id": "c1"}, "c1", None),
        ({"id": "c1"}, "c1", None),
        ({"type": "ask", "id": 5, "messages": MESSAGES}, None, "id"),
        ({"type": "ask", "id": "", "messages": MESSAGES}, "", "id"),
        ({"type": "ask", "id": "x" * 65, "messages": MESSAGES}, "x" * 64, "id"),
        ({"type": "ask", "id": "c1"}, "c1", "messages"),
        (
            ASK | {"messages": [*MESSAGES, {"role": "tool", "content": "It is in a box."}]},
            "c1",
            "messages",
        ),
        (ASK | {"messages": []}, "c1", "messages"),
        (ASK | {"messages": [{"role": "robot", "content": "x"}]}, "c1", "messages[0].role"),
        (ASK | {"messages": [{"role": "user", "content": " "}]}, "c1", "messages"),
        (ASK | {"messages": [{"role": "user", "content": "x " * 900}]}, "c1", "messages"),
        (ASK | {"params": {"temperature": 9}}, "c1", "params.temperature"),
        (ASK | {"params": {"mode": "majority"}}, "c1", "params.mode"),
        (ASK | {"params": {"colour": "red"}}, "c1", "params.colour"),
        ({"type": "stop"}, None, "id"),
    ],
)
def test_bad_frames_leave_the_socket_alive(
    page: Page, frame: Any, answer_id: str | None, param: str | None
) -> None:
    page.send(frame)
    reply = page.read()
    assert (reply["type"], reply["id"]) == ("error", answer_id)
    assert reply["error"].keys() - {"localizable"} == {"message", "type", "param", "code"}
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["param"] == param
    page.send(ASK | {"id": "next"})
    assert page.until("done", "next")[-1]["finish_reason"] == "stop"


def test_an_id_in_use_and_too_many(page: Page, generation: FakeGeneration) -> None:
    generation.silence = 30.0
    page.send(ASK)
    page.send(ASK)
    assert page.until("error")[-1]["error"]["param"] == "id"
    for number in range(8):
        page.send(ASK | {"id": f"n{number}"})
    assert page.until("error", "n7")[-1]["error"]["code"] == "overloaded"


def test_a_failure_tells_nothing_of_the_inside(page: Page, generation: FakeGeneration) -> None:
    generation.fail_after = 2
    page.send(ASK)
    error = page.until("error")[-1]["error"]
    assert error["code"] == "internal_error"
    assert "secret" not in error["message"]


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
    with connect(
        f"ws://{address}/ws/chat", additional_headers={"Authorization": f"Bearer {KEY}"}
    ) as other:
        assert json.loads(other.recv(timeout=60))["type"] == "status"


@pytest.mark.parametrize(
    ("headers", "origin", "status"),
    [
        ({}, None, 401),
        ({"Cookie": f"{COOKIE}=wrong"}, None, 401),
        ({"Cookie": "good"}, "http://evil.example", 403),
        ({"Cookie": "good"}, "http://127.0.0.1:1", 403),
    ],
)
def test_strangers_are_refused_before_the_socket_opens(
    address: str, state: AppState, headers: dict[str, str], origin: str | None, status: int
) -> None:
    if headers.get("Cookie") == "good":
        headers = headers | {"Cookie": f"{COOKIE}={state.auth.sessions.begin()}"}
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
