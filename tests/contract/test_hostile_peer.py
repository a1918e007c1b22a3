"""A device beside a peer that lies: every answer ends, and other passages stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.models import EMBEDDED_MODEL
from harness import services
from harness.faults.hostile_peer import Behaviour, HostilePeer, hostile_peer
from harness.services import Service, Setup
from tests.contract.asking import upload

pytestmark = pytest.mark.services

ASKED = "What is the wifi password of the cabin?"
ANSWERS = "The wifi password of the cabin is heron-42-lantern."
RELATED = "The alarm code of the cabin is 7731-M."
OTHER = "My blood type is AB negative."
BAIT = "The cabin has an alarm code and a wifi password."


@dataclass(frozen=True)
class Attacked:
    device: Service
    peer: HostilePeer

    def ask(self, *texts: str, **dragon: Any) -> dict[str, Any]:
        """The choice that answers the last of the messages."""
        messages = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(texts)
        ]
        body = {"model": EMBEDDED_MODEL.name, "messages": messages, "temperature": 0, "seed": 1}
        url = f"{self.device.url}/v1/chat/completions"
        body |= {"max_tokens": 48, "dragon": dragon}
        reply = httpx.post(url, headers=self.device.headers, json=body, timeout=120)
        choice: dict[str, Any] = reply.raise_for_status().json()["choices"][0]
        return choice


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    tokenizer = Tokenizer.load(EMBEDDED_MODEL)
    setup = Setup(tmp_path_factory.mktemp("hostile"), services.AS_INSTALLED)
    with (
        hostile_peer(HostilePeer(tokenizer, Behaviour.FLAT, "The password is", BAIT)) as peer,
        services.device(setup, peer.port) as device,
    ):
        for number, note in enumerate((ANSWERS, RELATED, OTHER)):
            upload(device, f"note-{number}.txt", note)
        yield Attacked(device, peer)


@pytest.fixture(params=list(Behaviour))
def behaving(attacked: Attacked, request: pytest.FixtureRequest) -> Attacked:
    attacked.peer.behaviour = request.param
    attacked.peer.clear()
    services.wait_joint(attacked.device)
    return attacked


def test_where_own_documents_answer_it_is_told_nothing(behaving: Attacked) -> None:
    first = behaving.ask(ASKED)
    assert "heron-42-lantern" in first["message"]["content"]
    assert behaving.peer.received == []


def test_every_answer_ends_and_other_passages_stay(behaving: Attacked) -> None:
    answer = behaving.ask(ASKED, cloud="always")
    assert answer["finish_reason"] in ("stop", "length")
    texts = [ASKED, answer["message"]["content"], "What is the capital of Kenya?"]
    behaving.ask(*texts, cloud="always")
    assert behaving.peer.received != []
    known = "\n".join(behaving.peer.texts())
    assert "AB negative" not in known
