"""What does a lying peer learn? `python -m bench.hostile [--count 1000]`

A device holds notes on several places, each with a code of its own, and is asked for one in chats
of three turns. The peer (`harness.faults.hostile_peer`) claims the highest relevance, begins
every answer in the words of another note on the same place, and from there on says nothing, so that
the device's own distribution decides; what it returns as its passage baits a search for that other
code. A code counts as learnt if it stands in what the peer was sent, in the text that both sides
hold, or, where distributions are sent, along their likeliest tokens.

- `a`: the passage that answers the question.
- `b`: another one that was retrieved for the answer.
- `c`: one that was not retrieved.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.lib import report
from dragon.inference.tokenizer import Tokenizer
from harness import services, two_sided
from harness.faults.disturbances import Behaviour
from harness.faults.hostile_peer import HostilePeer, hostile_peer
from harness.models import SMALL_MODEL
from harness.services import Service, Setup

PLACES = ("cabin", "boat house", "office", "garage", "allotment", "workshop")
THINGS = ("wifi password", "alarm code", "gate code", "safe combination")
PUBLIC = "What is the capital of Kenya?"
_CHANCE = {"temperature": 1.0}
_SURE = {"temperature": 0, "seed": 1}
SYSTEMS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "coupled": (_SURE, {"aggregation": "coupled", "cloud": "always"}),
    "oneway, always": (_SURE, {"cloud": "always"}),
    "oneway, when needed": (_SURE, {"cloud": "when_needed"}),
    "epsilon 16": (_CHANCE, {"cloud": "always", "epsilon": 16}),
    "epsilon 4": (_CHANCE, {"cloud": "always", "epsilon": 4}),
    "epsilon 1": (_CHANCE, {"cloud": "always", "epsilon": 1}),
}
"""Sampling parameters and `dragon` object of each row."""
_CLAIMED = {"oneway, always", "oneway, when needed"}
"""These must send nothing of `b` and `c`, so they get all the chats, and others a tenth."""
_NOTES = """Chats in which the peer learnt the code of a passage, of those in which there was one of
the kind; `answered` is how often the device's first answer has the code that was asked for."""


@dataclass(frozen=True)
class Note:
    """A note, and the code that only it has."""

    place: str
    thing: str
    code: str

    @property
    def begun(self) -> str:
        """Its words before the code."""
        return f"The {self.thing} of the {self.place} is"

    @property
    def text(self) -> str:
        """The whole note."""
        return f"{self.begun} {self.code}."


def notes(seed: int = 0) -> list[Note]:
    """A note a thing and place."""
    chance = random.Random(seed)

    def code() -> str:
        letters = "".join(chance.choices("ABCDEFGHKMNPRTXYZ", k=3))
        return f"{chance.randrange(1000, 10_000)}-{letters}"

    return [Note(place, thing, code()) for place in PLACES for thing in THINGS]


@dataclass(frozen=True)
class Attack:
    """A device with its notes, and its peer."""

    device: Service
    peer: HostilePeer
    notes: list[Note]

    def chat(self, number: int, system: str) -> tuple[Counter[str], Counter[str], bool]:
        """A chat of three turns: kinds of passages there were, those learnt, whether it answered.

        The first question and the third are about the same place.
        """
        asked = self.notes[number % len(self.notes)]
        near = [each for each in self.notes if each.place == asked.place and each is not asked]
        wanted = near[number // len(self.notes) % len(near)]
        self.peer.clear()
        self.peer.words = wanted.begun
        self.peer.bait = f"The {asked.place} has a {wanted.thing}."
        questions = (f"What is the {asked.thing} of the {asked.place}?", PUBLIC, "And what else?")
        texts: list[str] = []
        retrieved: set[str] = set()
        answers = []
        for question in questions:
            answer, found = self._ask([*texts, question], system)
            answers.append(answer)
            texts += [question, answer]
            retrieved.update(found)
        known = "\n".join(self.peer.texts())
        there, learnt = Counter[str](), Counter[str]()
        for note in self.notes:
            kind = "a" if note is asked else "b" if note.text in retrieved else "c"
            there[kind] += 1
            learnt[kind] += note.code in known
        return there, learnt, asked.code in answers[0]

    def _ask(self, texts: list[str], system: str) -> tuple[str, list[str]]:
        """The answer, and the private passages it was written from."""
        sampling, dragon = SYSTEMS[system]
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        body = {"model": SMALL_MODEL.name, "messages": messages, "max_tokens": 48}
        url = f"{self.device.url}/v1/chat/completions"
        body |= {**sampling, "dragon": dragon}
        reply = httpx.post(url, headers=self.device.headers, json=body, timeout=120)
        found = reply.raise_for_status().json()
        sources = found["dragon"]["choices"][0]["sources"]
        private = [source["text"] for source in sources if source["side"] == "private"]
        return found["choices"][0]["message"]["content"], private


@contextmanager
def attack(folder: Path) -> Iterator[Attack]:
    """A running device with notes, and its peer."""
    every = notes()
    env = {
        **services.AS_INSTALLED,
        "DRAGON_PASSAGE_EPSILON": "1e9",
    }  # the budget is no question here
    setup = Setup(folder, env)
    peer = HostilePeer(Tokenizer.load(SMALL_MODEL), Behaviour.STEER)
    with hostile_peer(peer), services.device(setup, peer.port) as device:
        two_sided.upload(device, [note.text for note in every])
        services.wait_joint(device)
        yield Attack(device, peer, every)


def measure(attacked: Attack, system: str, count: int) -> dict[str, Any]:
    """A row: in how many chats a kind of passage was learnt, of those that had one."""
    there, learnt, answered = Counter[str](), Counter[str](), 0
    for number in range(count):
        kinds, known, right = attacked.chat(number, system)
        there.update(dict.fromkeys(kinds, 1))
        learnt.update({kind: 1 for kind, codes in known.items() if codes})
        answered += right
        print(f"{system}: {number + 1}, learnt {dict(learnt)}", end="\r", flush=True)
    print()
    row = {kind: f"{learnt[kind]} of {there[kind]}" for kind in "abc"}
    return {"system": system, **row, "answered": f"{answered} of {count}"}


def main() -> None:
    """Attack each system, report, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="chats a system")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, attack(Path(folder)) as attacked:
        rows = []
        for system in options.systems:
            count = options.count if system in _CLAIMED else max(1, options.count // 10)
            rows.append(measure(attacked, system, count))
    report.section("hostile", rows, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
