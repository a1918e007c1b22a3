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
    """An open page with its chat, and the ids of the last question and answer."""

    device: Service
    socket: ClientConnection
    conversation: str | None = None
    question: str = ""
    answer: str = ""

    @classmethod
    @contextmanager
    def opened(cls, device: Service) -> Iterator[Self]:
        """Open a page for a `with` block."""
        url = f"ws://127.0.0.1:{device.port}/ws/chat"
        with connect(url, additional_headers=device.headers, compression=None) as socket:
            yield cls(device, socket)

    def say(self, text: str, params: dict[str, Any], **more: Any) -> str:
        """Ask below the last answer or a given `parent`; return the answer's text."""
        place = {"conversation": self.conversation}
        if self.answer:
            place["parent"] = self.answer
        return self._written({"type": "say", "text": text, "params": params, **place, **more})

    def again(self, params: dict[str, Any]) -> str:
        """Have the last question answered again; return the new answer's text."""
        return self._written({"type": "again", "message": self.question, "params": params})

    def go_on(self, params: dict[str, Any]) -> str:
        """Have the last answer continued; return its whole text."""
        return self._written({"type": "continue", "message": self.answer, "params": params})

    def _written(self, frame: dict[str, Any]) -> str:
        """Send a frame that starts an answer, wait for its end, and return its text."""
        for event in self._events(frame):
            if event["type"] == "began":
                self.conversation = event["conversation"]["id"]
                self.question, self.answer = event["question"]["id"], event["answer"]["id"]
        url = f"{self.device.url}/api/conversations/{self.conversation}"
        reply = httpx.get(url, headers=self.device.headers, timeout=60, verify=False)
        messages = reply.raise_for_status().json()["messages"]
        texts = {each["id"]: each["text"] for each in messages}
        text: str = texts[self.answer]
        return text

    def _events(self, frame: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a frame that starts an answer, and yield events until it is done."""
        self.socket.send(json.dumps({"id": "page", **frame}))
        while (event := json.loads(self.socket.recv(timeout=_LONGEST_S)))["type"] != "done":
            if event["type"] == "error":
                raise RuntimeError(f"no answer to {frame}: {event}")
            yield event
