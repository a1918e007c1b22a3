"""A page with its socket on a real port."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from app.auth import COOKIE
from app.container import AppState
from tests.app.conftest import HEADERS
from tests.app.stores import known
from tests.fakes import SOURCE


class Page:
    """A page's socket, in frames, and its HTTP."""

    def __init__(self, socket: ClientConnection, address: str) -> None:
        self.socket = socket
        self._api = httpx.Client(
            base_url=f"http://{address}", headers=HEADERS, timeout=60, verify=False
        )
        assert self.read()["type"] == "status"

    def put(self, frame: Any) -> None:
        self.socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def send(self, kind: str, **frame: Any) -> None:
        self.put({"type": kind, "id": "r1", **frame})

    def read(self) -> dict[str, Any]:
        return json.loads(self.socket.recv(timeout=60))

    def until(self, *kinds: str, of: str | None = None) -> list[dict[str, Any]]:
        """Frames up to the first of these kinds, with this id if one is given."""
        frames = [self.read()]
        while frames[-1]["type"] not in kinds or of not in (None, frames[-1].get("id")):
            frames.append(self.read())
        return frames

    def begin(self, **params: Any) -> str:
        """Ask in a new conversation; the answer's id."""
        self.send("say", text="Where is the key?", params=params)
        answer: str = self.until("began")[-1]["answer"]["id"]
        return answer

    def say(self, text: str, **frame: Any) -> dict[str, Any]:
        """Ask and read to the end; the frame `began`."""
        self.send("say", text=text, **frame)
        began = self.until("began", "error")[-1]
        assert began["type"] == "began", began
        self.until("done")
        return began

    def get(self, path: str = "", **params: Any) -> Any:
        return self.call("GET", path, params=params).raise_for_status().json()

    def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        return self._api.request(method, f"/api/conversations/{path}".rstrip("/"), **arguments)

    def messages(self, conversation: str) -> dict[str, dict[str, Any]]:
        return {each["id"]: each for each in self.get(conversation)["messages"]}


@contextmanager
def opened(address: str, headers: dict[str, str] = HEADERS) -> Iterator[Page]:
    origin = f"http://{address}"
    with connect(f"ws://{address}/ws/chat", additional_headers=headers, origin=origin) as socket:
        yield Page(socket, address)


@pytest.fixture
def page(address: str, state: AppState, tmp_path: Path) -> Iterator[Page]:
    """Signed in by a cookie."""
    known(tmp_path, SOURCE.id, SOURCE.title)
    with opened(address, {"Cookie": f"{COOKIE}={state.auth.sessions.begin()}"}) as page:
        yield page
