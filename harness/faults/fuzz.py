"""Frames with errors, as from a broken or hostile side of the link.

Each begins as a frame that the side might send. Bits flip, bytes go missing, are repeated or taken
from another frame, fields of text frames get values of other types; some stay valid, but come at
the wrong time. Each is either refused with `FrameError`, or is a message that the session of any
mode survives.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragon.errors import FrameError
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.link import batching, bodies, control, registry
from dragon.protocol.messages import (
    Candidate,
    Correction,
    Draft,
    Join,
    Limits,
    Resync,
    Score,
    SessionMessage,
    Target,
)
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.session import Session
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role

VOCABULARY = 8192
_ANSWER = 50  # frames
_JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e308, 10**30, 1 << 31, "", "x" * 300, [], {}, [1.5], [-1], [1 << 31],
    {"a": 1}, "\x00", "é", [[0, 0.5]],
)  # fmt: skip
_DOCUMENT = control.PublicDocument(id="1", title="Kenya", text="Nairobi.", score=1.0, weight=0.5)
_ASKING: dict[str, Any] = {
    "conversation": (1, 2, 3),
    "raw": False,
    "query": "What?",
    "top_k": 2,
    "sampling": Sampling(seed=1, logit_bias=((7, 1.5),)),
}


def right(sender: Role) -> list[registry.Message]:
    """A message of every kind that a side sends."""
    side = Side(WireDistribution.of([3, 5, 900], [40_000, 20_000, 5_536]), -5_000)
    either: list[registry.Message] = [
        control.Hello(tokenizer="a", relevance="b", model="c"),
        control.Fault(code="busy", message="Try again."),
        control.Ping(number=1),
        control.Pong(number=1, load=0.5),
        control.Draining(),
        control.Probe(payload="....", reply=4),
        Draft(1, 0, 0, 0, 0, 5, 1000, side),
        Target(1, 0, 5, device_kept=True, cloud_kept=False, next=Role.CLOUD),
        Candidate(1, (5, 6), -1.5, 0),
    ]
    if sender is Role.DEVICE:
        return [
            *either,
            control.Open(**_ASKING, mode=Mode.ONEWAY, max_tokens=10, catch_up=True),
            control.ScoreText(**_ASKING, text=(5, 6), prompt=3, max_tokens=10),
            control.Fetch(query="What?", top_k=2, raw=False, weights="a"),
            control.ScoreTaken(),
            control.Close(reason="finished"),
            Join(2, 0, (5, 6)),
            Correction(1, 0, 0, 1000, (5,)),
        ]
    return [
        *either,
        control.Ready(documents=(_DOCUMENT,), horizon=100, log_h=0),
        control.Fetched(documents=(_DOCUMENT,)),
        control.Scoring(documents=(_DOCUMENT,), rows=1),
        Resync(1),
        Score(1, -2.0),
        bodies.Bulk(b"keys and values"),
    ]


class Fuzzer:
    """Broken frames of one side, from a seed."""

    def __init__(self, sender: Role, seed: int) -> None:
        self._chance = random.Random(seed)
        self._right = [registry.encode(message, 1) for message in right(sender)]

    def frame(self) -> registry.Frame:
        """The next frame."""
        chance = self._chance
        frame = chance.choice(self._right)
        if chance.random() < 0.1:
            return frame
        if isinstance(frame, str) and chance.random() < 0.5:
            return self._other_fields(frame)
        data = bytearray(frame.encode() if isinstance(frame, str) else frame)
        for _ in range(chance.randint(1, 3)):
            self._damage(data)
        if isinstance(frame, str) and chance.random() < 0.9:
            return data.decode("utf-8", "ignore")
        return bytes(data)

    def _other_fields(self, frame: str) -> str:
        fields = json.loads(frame)
        for name in self._chance.sample(sorted(fields), self._chance.randint(1, 2)):
            if self._chance.random() < 0.2:
                del fields[name]
            else:
                fields[name] = self._chance.choice(_JUNK)
        return json.dumps(fields)

    def _damage(self, data: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 64)]
            case 3:
                data[at : at + chance.randint(1, 8)] = chance.choice((b"\x00", b"\xff")) * 8
            case _:
                other = chance.choice(self._right)
                data[at:] = (other.encode() if isinstance(other, str) else other)[at:]


@dataclass
class Counts:
    """How many frames were refused or accepted."""

    refused: int = 0
    taken: int = 0


def feed(receiver: Role, frames: int, seed: int) -> Counts:
    """Feed a side broken frames, in answers of every mode; raises what it does not handle."""
    sender = Role.CLOUD if receiver is Role.DEVICE else Role.DEVICE
    fuzzer, counts = Fuzzer(sender, seed), Counts()
    modes: Sequence[Mode] = [mode for mode in Mode if mode.joint and not mode.fetches]
    session = _session(modes[0], receiver)
    for number in range(frames):
        if number % _ANSWER == 0:
            session = _session(modes[number // _ANSWER % len(modes)], receiver)
        try:
            for each in batching.split(fuzzer.frame()):
                _, message = registry.decode(each, sender, VOCABULARY)
                counts.taken += 1
                if isinstance(message, SessionMessage):
                    session.receive(message)
                    session.take_outbox()
                    session.take_commits()
                    session.next_work()
        except FrameError:
            counts.refused += 1
    return counts


def _session(mode: Mode, role: Role) -> Session:
    start = Start(
        mode, Sampling(temperature=1.0, seed=3), Limits(frozenset({2}), 100), catch_up=True
    )
    return session_of(start, role, Pace(LinkMeter(), DecodeDelay()), joint=True)
