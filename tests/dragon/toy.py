"""A toy world for the protocol: two small language models, two sessions, and a network of queues.

Nothing is patched: the decoders keep what they were fed and roll back as real ones do, and the
channels keep order and lose only a suffix, as TCP does.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from dragon import aggregation
from dragon.aggregation import Side
from dragon.protocol import Draft, Limits, Role, SessionMessage, Work
from dragon.sampling import Sampling
from dragon.session import Session
from dragon.wire import WireDistribution

VOCABULARY = 24
END = 0


def toy_side(role: Role, text: tuple[int, ...], likeness: float = 0.6) -> Side:
    """What a side says after `text`: a function of role and text alone, alike on both in part."""
    key = zlib.crc32(bytes(text))
    shared = np.random.default_rng(key)
    own = np.random.default_rng([key, role is Role.DEVICE])
    chosen = shared if shared.random() < likeness else own
    size = int(chosen.integers(1, 7))
    ids = np.sort(chosen.choice(VOCABULARY, size, replace=False))
    if chosen.random() < 0.9:
        ids = ids[ids != END] if len(ids) > 1 else ids
    weights = chosen.integers(1, 1 << 13, len(ids))
    return Side(WireDistribution.of(ids, weights), int(own.integers(-2048, 2048)))


@dataclass
class ToyDecoder:
    """Keeps what it was fed; checks that work fits what it holds."""

    role: Role
    fed: list[int] = field(default_factory=list)

    def run(self, work: Work, likeness: float) -> list[Side]:
        assert work.keep <= len(self.fed)
        self.fed = [*self.fed[: work.keep], *work.tokens]
        ends = range(len(self.fed) - work.outputs + 1, len(self.fed) + 1)
        return [toy_side(self.role, tuple(self.fed[:end]), likeness) for end in ends]


def reference(
    sampling: Sampling,
    limits: Limits,
    intervals: tuple[tuple[int, int], ...],
    likeness: float,
) -> list[int]:
    """The answer written by one slow loop, given where the cloud took part."""
    text: list[int] = []
    while len(text) < limits.tokens and not (text and text[-1] in limits.end_ids):
        position = len(text)
        device = toy_side(Role.DEVICE, tuple(text), likeness)
        if any(start <= position < end for start, end in intervals):
            cloud = toy_side(Role.CLOUD, tuple(text), likeness)
            text.append(aggregation.target(device, cloud, sampling, position))
        else:
            text.append(aggregation.draft(device, sampling, position))
    return text


class World:
    """Two sessions, their decoders, and a channel each way, advanced one random event at a time."""

    def __init__(
        self,
        chance: random.Random,
        sampling: Sampling,
        limits: Limits,
        *,
        kind: type[Session] = Session,
        catch_up: bool = False,
        window: int = 8,
        likeness: float = 0.6,
    ) -> None:
        self.chance = chance
        self.likeness = likeness
        self.make = lambda role, **more: kind(
            role, sampling, limits, catch_up=catch_up, window=window, **more
        )
        self.device = self.make(Role.DEVICE)
        self.cloud = self.make(Role.CLOUD)
        self.decoders = {role: ToyDecoder(role) for role in Role}
        self.works: dict[Role, Work] = {}
        self.up: deque[SessionMessage] = deque()
        self.down: deque[SessionMessage] = deque()
        self.answer: list[int] = []
        self.largest_queue = 0
        self.longest_channel = 0

    def session(self, role: Role) -> Session:
        return self.device if role is Role.DEVICE else self.cloud

    def collect(self) -> None:
        self.up.extend(self.device.take_outbox())
        self.down.extend(self.cloud.take_outbox())
        self.answer.extend(self.device.take_commits())
        for role in Role:
            if role not in self.works and (work := self.session(role).next_work()):
                self.works[role] = work
        self.largest_queue = max(self.largest_queue, self.device.queued, self.cloud.queued)
        self.longest_channel = max(self.longest_channel, len(self.up), len(self.down))

    def events(self) -> list[str]:
        """What can happen next."""
        return [
            *(role.value for role in self.works),
            *(["up"] if self.up else []),
            *(["down"] if self.down else []),
        ]

    def step(self) -> bool:
        """One random event; False when nothing can happen any more."""
        self.collect()
        events = self.events()
        if not events:
            return False
        match self.chance.choice(events):
            case "up":
                self.cloud.receive(self.up.popleft())
            case "down":
                self.device.receive(self.down.popleft())
            case role:
                self.decode(Role(role))
        self.collect()
        return True

    def decode(self, role: Role) -> None:
        session, work = self.session(role), self.works.pop(role)
        if session.stale and self.chance.random() < 0.5:
            # Preempted between layers: what was written past `keep` is worthless.
            del self.decoders[role].fed[work.keep :]
            session.complete(None)
        else:
            session.complete(self.decoders[role].run(work, self.likeness))

    def run(self, steps: int = 100_000) -> None:
        """Run until the device has its answer; a standstill before that is a stall to the driver."""
        for _ in range(steps):
            if self.device.finished:
                return
            if not self.step():
                self.device.stalled()
        raise AssertionError("the answer never ends")

    # Faults.

    def cut(self, keep_up: int, keep_down: int) -> None:
        """The connection breaks: each way only the first messages of those in flight arrive."""
        for message in list(self.up)[:keep_up]:
            self.cloud.receive(message)
        for message in list(self.down)[:keep_down]:
            self.device.receive(message)
        self.up.clear()
        self.down.clear()
        self.device.lose()
        self.device.take_outbox()
        self.answer.extend(self.device.take_commits())

    def rejoin(self) -> None:
        """A new connection and a new cloud session, opened with what is committed by now."""
        self.base = len(self.device.committed)
        self.cloud = self.make(
            Role.CLOUD, committed=list(self.device.committed), joint=False
        )
        self.decoders[Role.CLOUD] = ToyDecoder(Role.CLOUD)
        self.works.pop(Role.CLOUD, None)

    def join(self) -> None:
        if not self.device.joint:
            self.device.join(self.base)


def corrupted(draft: Draft, how: str) -> Draft:
    """A draft as a fault on the way would have made it."""
    match how:
        case "token":
            return replace(draft, token=(draft.token + 1) % VOCABULARY)
        case "checksum":
            return replace(draft, checksum=draft.checksum ^ 1)
        case "epoch":
            return replace(draft, epoch=draft.epoch + 1)
        case "old epoch":
            return replace(draft, epoch=max(0, draft.epoch - 1))
        case "committed":
            return replace(draft, committed=draft.committed + 3)
        case "incarnation":
            return replace(draft, incarnation=draft.incarnation + 1)
        case "position":
            return replace(draft, position=draft.position + 1)
        case "log h":
            return replace(draft, side=Side(draft.side.wire, draft.side.log_h + 700))
    raise ValueError(how)


FAULTS = (
    "token", "checksum", "epoch", "old epoch", "committed", "incarnation", "position", "log h",
)  # fmt: skip
