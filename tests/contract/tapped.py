"""A device whose every word to its peer is written down, and what tests read of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from dragon.inference.tokenizer import Tokenizer
from dragon.link import control, registry
from dragon.protocol.messages import Candidate, Correction, Draft, Join
from dragon.sampling.role import Role
from harness import services
from harness.models import SMALL_MODEL
from harness.services import Service, Setup
from harness.wiretap import Tap, wiretap
from tests.contract.asking import upload


@dataclass(frozen=True)
class Tapped:
    device: Service
    tap: Tap

    def completed(self, prompt: str, **dragon: Any) -> dict[str, Any]:
        """What the ledger says of the completion of a prompt as it stands."""
        body = {"prompt": prompt, "max_tokens": 16, "temperature": 1.0, "dragon": dragon}
        return self.ledger(self.post("/v1/completions", body)[0].json()["dragon"]["choices"][0])

    def ledger(self, answer: dict[str, Any]) -> dict[str, Any]:
        """What the ledger says of an answer."""
        found: dict[str, Any] = self.get(f"/api/ledger/{answer['ledger']}").json()
        return found

    def ask(
        self, *texts: str, sampling: dict[str, Any] | None = None, **dragon: Any
    ) -> tuple[dict[str, Any], list[registry.Message]]:
        """The response's choice with its `dragon` part, and what left the device for it.

        `texts` are the messages of a conversation, questions and answers in turn.
        """
        messages = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(texts)
        ]
        return self.said(messages, sampling, **dragon)

    def said(
        self, messages: list[dict[str, str]], sampling: dict[str, Any] | None = None, **dragon: Any
    ) -> tuple[dict[str, Any], list[registry.Message]]:
        """As `ask`, of messages of any role."""
        body = {"messages": messages, "temperature": 0, "seed": 1, "dragon": dragon}
        choice, sent = self._asked("/v1/chat/completions", body | (sampling or {}))
        return {"text": choice["message"]["content"], **choice["dragon"]}, sent

    def continued(
        self, text: str, sampling: dict[str, Any], **dragon: Any
    ) -> tuple[dict[str, Any], list[registry.Message]]:
        """As `ask`, of a text that the model continues freely."""
        body = {"prompt": text, "dragon": dragon}
        choice, sent = self._asked("/v1/completions", body | sampling)
        return {"text": choice["text"], **choice["dragon"]}, sent

    def get(self, path: str) -> httpx.Response:
        """What the device says."""
        url = f"{self.device.url}{path}"
        headers = self.device.headers
        return httpx.get(url, headers=headers, timeout=60, verify=False).raise_for_status()

    def post(self, path: str, body: dict[str, Any]) -> tuple[httpx.Response, list[registry.Frame]]:
        """A response, and what left the device from the question to the ledger's last word."""
        before = len(self.tap.sent)
        reply = httpx.post(
            f"{self.device.url}{path}",
            headers=self.device.headers,
            json={"model": SMALL_MODEL.name, **body},
            timeout=120,
            verify=False,
        ).raise_for_status()
        self.tap.settle()
        return reply, self.tap.sent[before:]

    def _asked(
        self, path: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any], list[registry.Message]]:
        reply, frames = self.post(path, body)
        found, sent = reply.json(), list(map(message_of, frames))
        quiet = (control.Ping, control.Pong, control.Probe, control.Draining)
        return (
            {**found["choices"][0], "dragon": found["dragon"]["choices"][0]},
            [message for message in sent if not isinstance(message, quiet)],
        )


@contextmanager
def tapped_pair(setup: Setup, corpus: Path, **notes: str) -> Iterator[Tapped]:
    """A device with notes, its peer, and the wiretap between them."""
    with (
        services.peer(setup, corpus) as peer,
        wiretap(peer.port) as tap,
        services.device(setup, tap.port) as device,
    ):
        for name, text in notes.items():
            upload(device, f"{name}.md", text)
        services.wait_joint(device)
        yield Tapped(device, tap)


def message_of(frame: registry.Frame) -> registry.Message:
    """What a device has sent."""
    return registry.decode(frame, Role.DEVICE, 1 << 20)[1]


def opened(sent: list[registry.Message], tokenizer: Tokenizer) -> list[str]:
    """The conversations that the cloud was sent."""
    return [tokenizer.decode(m.conversation) for m in sent if isinstance(m, control.Open)]


def words(sent: list[registry.Message], tokenizer: Tokenizer) -> str:
    """All words of answers that went up."""
    tokens: list[int] = []
    for message in sent:
        assert not isinstance(message, (Draft, Candidate)), "a distribution or a draft went up"
        if isinstance(message, Correction):
            tokens += message.tokens
        elif isinstance(message, Join):
            tokens += message.tail
        elif isinstance(message, control.Open):
            tokens += message.committed
    return tokenizer.decode(tokens)
