"""A page without a browser: asks in one chat over its socket, and reads each answer to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx
from websockets.sync.client import ClientConnection, connect

from harness.services import Service

_LONGEST_S = 300.0


@dataclass
class Page:
    """An open page, and the chat that it is in: its last question and answer, by their ids."""

    device: Service
    socket: ClientConnection
    conversation: str | None = None
    question: str = ""
    answer: str = ""

    @classmethod
    @contextmanager
    def opened(cls, device: Service) -> Iterator[Self]:
        """A page for a block of code."""
        url = f"ws://127.0.0.1:{device.port}/ws/chat"
        with connect(url, additional_headers=device.headers, compression=None) as socket:
            yield cls(device, socket)

    def say(self, text: str, params: dict[str, Any], **more: Any) -> str:
        """Ask below the last answer, unless a `parent` is given; the answer's text."""
        place = {"conversation": self.conversation}
        if self.answer:
            place["parent"] = self.answer
        return self._written({"type": "say", "text": text, "params": params, **place, **more})

    def again(self, params: dict[str, Any]) -> str:
        """Have the last question answered anew; that answer's text."""
        return self._written({"type": "again", "message": self.question, "params": params})

    def go_on(self, params: dict[str, Any]) -> str:
        """Have the last answer continued; its whole text."""
        return self._written({"type": "continue", "message": self.answer, "params": params})

    def _written(self, frame: dict[str, Any]) -> str:
        """Send a frame that has an answer written, and wait for its end."""
        for event in self._events(frame):
            if event["type"] == "began":
                self.conversation = event["conversation"]["id"]
                self.question, self.answer = event["question"]["id"], event["answer"]["id"]
        url = f"{self.device.url}/api/conversations/{self.conversation}"
        reply = httpx.get(url, headers=self.device.headers, timeout=60).raise_for_status()
        texts = {each["id"]: each["text"] for each in reply.json()["messages"]}
        text: str = texts[self.answer]
        return text

    def _events(self, frame: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a frame that has an answer written; what comes until it is done."""
        self.socket.send(json.dumps({"id": "page", **frame}))
        while (event := json.loads(self.socket.recv(timeout=_LONGEST_S)))["type"] != "done":
            if event["type"] == "error":
                raise RuntimeError(f"no answer to {frame}: {event}")
            yield event
