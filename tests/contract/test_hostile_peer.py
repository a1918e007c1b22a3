"""A device beside a peer that lies: every answer ends, and other passages stay where they are."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dragon.inference.tokenizer import Tokenizer
from harness import services
from harness.faults.disturbances import Behaviour
from harness.faults.hostile_peer import HostilePeer, hostile_peer
from harness.models import SMALL_MODEL
from harness.services import Service, Setup
from tests.contract.asking import peer_once, posted, upload

pytestmark = pytest.mark.services

ASKED = "What is the gate code of the cabin?"
ANSWERS = "The gate code of the cabin is heron-42-lantern."
BEGUN = "The alarm code of the cabin is"
RELATED = f"{BEGUN} 7731-M."
OTHER = "My blood type is AB negative."
BAIT = "The cabin has an alarm code and a gate code."
WAIT_S = 60
TOKEN_BY_TOKEN = ["oneway", "coupled", "exchange", "tokenwise", "speculative"]


@dataclass(frozen=True)
class Attacked:
    device: Service
    peer: HostilePeer

    def ask(self, *texts: str, **dragon: Any) -> dict[str, Any]:
        """The choice that answers the last of the messages."""
        choice: dict[str, Any] = self.reply(*texts, **dragon)["choices"][0]
        return choice

    def reply(self, *texts: str, **dragon: Any) -> dict[str, Any]:
        """All that is said of it."""
        messages = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(texts)
        ]
        body = {"model": SMALL_MODEL.name, "messages": messages, "temperature": 0, "seed": 1}
        body |= {"max_tokens": 48, "dragon": dragon}
        return posted(self.device, "/v1/chat/completions", **body)

    def behave(self, behaviour: Behaviour) -> None:
        """What the peer does from now on."""
        self.peer.behaviour = behaviour
        services.wait_joint(self.device)
        self.peer.clear()

    def asked_of_the_peer(self, behaviour: Behaviour) -> dict[str, Any]:
        """An answer that the peer has heard of.

        The device may hang up on it, for what it did before, just when it is asked.
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            self.behave(behaviour)
            answer = self.ask(ASKED, cloud="always")
            if self.peer.received:
                return answer
            assert time.monotonic() < deadline


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    tokenizer = Tokenizer.load(SMALL_MODEL)
    setup = Setup(tmp_path_factory.mktemp("hostile"), services.AS_INSTALLED)
    with (
        hostile_peer(HostilePeer(tokenizer, Behaviour.FLAT, BEGUN, bait=BAIT)) as peer,
        services.device(setup, peer.port) as device,
    ):
        for number, note in enumerate((ANSWERS, RELATED, OTHER)):
            upload(device, f"note-{number}.txt", note)
        yield Attacked(device, peer)


def test_where_own_documents_answer_it_is_told_nothing(attacked: Attacked) -> None:
    attacked.behave(Behaviour.STEER)
    first = attacked.ask(ASKED)
    assert "heron-42-lantern" in first["message"]["content"]
    assert attacked.peer.received == []


@pytest.mark.parametrize("behaviour", list(Behaviour))
def test_every_answer_ends_and_other_passages_stay(
    attacked: Attacked, behaviour: Behaviour
) -> None:
    answer = attacked.asked_of_the_peer(behaviour)
    assert answer["finish_reason"] in ("stop", "length")
    if behaviour in (Behaviour.FLAT, Behaviour.STEER):
        texts = [ASKED, answer["message"]["content"], "What is the capital of Kenya?"]
        attacked.ask(*texts, cloud="always")
    else:  # it has no part in the words
        assert "heron-42-lantern" in answer["message"]["content"]
    learnt = "\n".join(attacked.peer.texts())
    assert "AB negative" not in learnt
    assert "7731-M" not in learnt


PASSAGE = {"id": "1", "title": "A", "text": BAIT, "score": 1.0, "weight": 1.0}


@pytest.mark.parametrize(
    "claims",
    [
        {"horizon": 0},
        {"horizon": 10**30},
        {"log_h": float("nan")},
        {"documents": [PASSAGE] * 33},
        {"documents": [PASSAGE | {"weight": float("nan")}]},
        {"documents": [PASSAGE | {"text": "\ud800"}]},
    ],
    ids=lambda claims: next(iter(claims)),
)
def test_of_a_peer_that_claims_the_impossible_the_answer_is_the_devices_own(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch, claims: dict[str, Any]
) -> None:
    alone = attacked.ask(ASKED, cloud="never")
    monkeypatch.setattr(attacked.peer, "claims", claims)
    answer = attacked.asked_of_the_peer(Behaviour.FLAT)
    assert answer["message"]["content"] == alone["message"]["content"]
    assert answer["finish_reason"] == "stop"


def test_a_passage_is_no_likelier_than_certain(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = [PASSAGE | {"weight": weight} for weight in (1e308, 1e308, -1e308)]
    monkeypatch.setattr(attacked.peer, "claims", {"documents": passages})
    attacked.behave(Behaviour.FLAT)
    (own,) = attacked.reply(ASKED, cloud="always", provenance=True)["dragon"]["choices"]
    assert [each["weight"] for each in own["sources"] if each["side"] == "public"] == [1, 1, 0]
    tokens = own["provenance"]
    assert any(each["cloud"] for each in tokens)
    for each in tokens:
        assert all(0 <= share <= 1 for share in each["documents"]), each


def test_a_peer_that_becomes_another_one_in_mid_answer_is_left_out_until_it_is_back(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = attacked.ask(ASKED, cloud="never")["message"]["content"]
    attacked.behave(Behaviour.HANG_UP)
    with monkeypatch.context() as lies:
        another = {"tokenizer": "another", "model": "a\nmodel of another family"}
        lies.setattr(attacked.peer, "greeting", another)
        assert attacked.ask(ASKED, cloud="always")["message"]["content"] == alone
        told = peer_once(attacked.device, "refused")
        assert "a model of another family there" in told["detail"]
        attacked.peer.clear()
        answer = attacked.ask(ASKED, cloud="always")
        assert answer["message"]["content"] == alone
        assert attacked.peer.received == []
    peer_once(attacked.device, "connected")
    assert attacked.asked_of_the_peer(Behaviour.FLAT)["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    ("mode", "behaviour"),
    [
        ("oneway", Behaviour.FLAT),
        *((mode, Behaviour.STEER) for mode in TOKEN_BY_TOKEN),
        ("sequencewise", Behaviour.CANDIDATE),
    ],
)
def test_an_answer_keeps_to_its_format_whatever_the_peer_says(
    attacked: Attacked, mode: str, behaviour: Behaviour
) -> None:
    attacked.behave(behaviour)
    dragon = {"aggregation": mode, "cloud": "always", "regex": "[0-9]{4}-[A-Z]{3}", "wait": True}
    body = {"model": SMALL_MODEL.name, "prompt": ASKED, "temperature": 1, "seed": 1}
    (choice,) = posted(attacked.device, "/v1/completions", **body, dragon=dragon)["choices"]
    assert choice["finish_reason"] == "stop"
    assert re.fullmatch("[0-9]{4}-[A-Z]{3}", choice["text"])
    assert attacked.peer.received
