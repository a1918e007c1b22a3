"""A page's WebSocket without a page: asks, stops, and reads events as they come."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from harness.services import KEY, Service

Event = dict[str, Any]


class Chat:
    """One connection to `/ws/chat`; keeps the events of its one answer."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.events: list[Event] = []

    def ask(self, question: str, **params: Any) -> None:
        """Ask in a new conversation; the answer's events are read with `until`."""
        self.events = []
        frame = {"type": "say", "id": "a", "text": question, "params": params}
        self._connection.send(json.dumps(frame))

    def until(self, wanted: Callable[[Event], bool], timeout: float = 60.0) -> Event:
        """Read on until an event is the one that is waited for."""
        deadline = time.monotonic() + timeout
        while True:
            event: Event = json.loads(self._connection.recv(timeout=deadline - time.monotonic()))
            if event["type"] == "status":
                continue
            self.events.append(event | {"at": time.monotonic()})
            if wanted(event):
                return self.events[-1]
            assert event["type"] not in ("done", "error"), event

    def tokens(self, count: int) -> None:
        """Read on until so many more tokens have been written."""
        before = max((block["tokens"] for block in self._blocks), default=0)
        self.until(lambda event: event["type"] == "block" and event["tokens"] >= before + count)

    def done(self, timeout: float = 120.0) -> Event:
        """Read to the end of the answer."""
        return self.until(lambda event: event["type"] == "done", timeout)

    def peer_changes(self) -> list[bool]:
        """Whether the cloud took part, in the order of the events that said so."""
        return [event["joint"] for event in self.events if event["type"] == "peer"]

    def longest_silence(self) -> float:
        """Seconds of the longest pause in which no text was added."""
        times = [block["at"] for block in self._blocks]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join({block["index"]: block["text"] for block in self._blocks}.values())

    @property
    def _blocks(self) -> list[Event]:
        return [event for event in self.events if event["type"] == "block"]


@contextmanager
def chat(device: Service) -> Iterator[Chat]:
    """A connection for a block of code."""
    url = f"ws://127.0.0.1:{device.port}/ws/chat"
    headers = {"Authorization": f"Bearer {KEY}"}
    with connect(url, additional_headers=headers, compression=None) as connection:
        yield Chat(connection)
