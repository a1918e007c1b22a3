"""A toy world for the protocol: two small language models, two sessions, and a network of queues.

Nothing is patched: the decoders keep what they were fed and roll back as real ones do, and the
channels keep order and lose only a suffix, as TCP does. `fire` adds what TCP does not.
"""

from __future__ import annotations

import math
import random
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dragon.protocol.messages import Correction, Join, Limits, SessionMessage, Work
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled
from dragon.protocol.rules.speculative import algorithm1_draft
from dragon.protocol.session import Session
from dragon.sampling import mixture
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import ReferredSide
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from harness.reference import algorithm_1

VOCABULARY = 24
END = 0
MOST_LOG_H = 0  # of the cloud
# What may be chosen of a mixture: mostly all of it.
TRUNCATIONS: tuple[dict[str, Any], ...]
TRUNCATIONS = ({}, {}, {}, {"top_p": 0.8}, {"top_k": 2}, {"top_k": 3, "min_p": 0.2})


def sure(token: int, log_h: int = 0) -> Side:
    """A side that knows what comes."""
    return Side(WireDistribution.of([token], [1 << 16]), log_h)


def work(of: Session) -> Work:
    """What a session wants decoded: there is something."""
    wanted = of.next_work()
    assert wanted is not None
    return wanted


@lru_cache(maxsize=1 << 15)
def toy_side(role: Role, text: tuple[int, ...], likeness: float = 0.6) -> Side:
    """What a side says after `text`: a function of role and text alone, alike on both in part.

    Its log h changes with the text. The device knows what it would say without
    passages, too.
    """
    key = zlib.crc32(bytes(text))
    shared = np.random.default_rng(key)
    own = np.random.default_rng([key, role is Role.DEVICE])
    chosen = shared if shared.random() < likeness else own
    size = int(chosen.integers(1, 7))
    ids = np.sort(chosen.choice(VOCABULARY, size, replace=False))
    if chosen.random() < 0.9:
        ids = ids[ids != END] if len(ids) > 1 else ids
    weights = chosen.integers(1, 1 << 13, len(ids))
    wire, log_h = WireDistribution.of(ids, weights), toy_log_h(role, text)
    return ReferredSide(wire, log_h, _bare(key)) if role is Role.DEVICE else Side(wire, log_h)


def _bare(key: int) -> WireDistribution:
    chance = np.random.default_rng([key, 2])
    ids = np.sort(chance.choice(VOCABULARY, 12, replace=False))
    return WireDistribution.of(ids, chance.integers(1, 1 << 12, len(ids)))


def toy_log_h(role: Role, text: tuple[int, ...]) -> int:
    """log h after `text`; a side may have no say at all, when another's quote goes on."""
    chance = np.random.default_rng([zlib.crc32(bytes(text)), role is Role.DEVICE])
    if chance.random() < 0.1:
        return -LOG_H_LIMIT
    return MOST_LOG_H + int(chance.integers(-4096, 1)) + (role is Role.DEVICE) * 3072


def toy_likelihood(role: Role, text: Sequence[int]) -> float:
    """log P^s(text) of two rows, a function of role and text alone; nothing to do with its side."""
    total = 0.0
    for row, weight in enumerate((0.7, 0.3)):
        chances = [
            (1 + zlib.crc32(bytes([role is Role.DEVICE, row, *text[:end]])) % 997) / 1000
            for end in range(1, len(text) + 1)
        ]
        total += weight * math.prod(chances)
    return math.log(total)


@dataclass
class ToyDecoder:
    """Keeps what it was fed; checks that work fits what it holds."""

    role: Role
    fed: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    log_likelihood: float = 0.0

    def run(self, work: Work, likeness: float) -> list[Side]:
        assert work.keep <= len(self.fed)
        self.fed = [*self.fed[: work.keep], *work.tokens]
        if work.scored:
            assert work.keep in (0, len(self.scored))
            self.scored = [*self.scored[: work.keep], *work.scored]
            assert self.fed == self.scored[: len(self.fed)]
            assert len(self.scored) - len(self.fed) in (0, 1)
            self.log_likelihood = toy_likelihood(self.role, self.scored)
        ends = range(len(self.fed) - work.outputs + 1, len(self.fed) + 1)
        return [toy_side(self.role, tuple(self.fed[:end]), likeness) for end in ends]


def reference(
    sampling: Sampling,
    limits: Limits,
    intervals: Sequence[tuple[int, int]],
    likeness: float = 0.6,
    *,
    speculative: bool = False,
) -> list[int]:
    """The answer written by one slow loop, given where the cloud took part."""
    text: list[int] = []
    while len(text) < limits.tokens and not (text and text[-1] in limits.end_ids):
        position = len(text)
        device = toy_side(Role.DEVICE, tuple(text), likeness)
        if any(start <= position < end for start, end in intervals):
            cloud = toy_side(Role.CLOUD, tuple(text), likeness)
            take = algorithm_1 if speculative else mixture.target
            text.append(take(device, cloud, sampling, position))
        elif speculative:
            text.append(algorithm1_draft(Role.DEVICE, device, sampling, position))
        else:
            text.append(mixture.draft(device, sampling, position))
    return text


class World:
    """Two sessions, their decoders, and a channel each way, advanced one random event at a time."""

    def __init__(
        self,
        seed: int,
        sampling: Sampling,
        limits: Limits,
        *,
        rule: Callable[[Session], Rule] = Coupled,
        catch_up: bool = False,
        window: int = 8,
        likeness: float = 0.6,
        joint: bool = True,
    ) -> None:
        self.chance = random.Random(seed)
        self.likeness = likeness
        self.make = partial(
            Session, sampling=sampling, limits=limits, rule=rule, catch_up=catch_up, window=window
        )
        self.device = self.make(Role.DEVICE, joint=joint)
        self.cloud = self.make(Role.CLOUD, joint=joint)
        self.device.rule.weigh(MOST_LOG_H)
        self.decoders = {role: ToyDecoder(role) for role in Role}
        self.works: dict[Role, Work] = {}
        self.channels: dict[Role, deque[SessionMessage]] = {role: deque() for role in Role}
        self.delivered: list[tuple[Role, SessionMessage]] = []
        self.frozen: set[Role] = set()
        self.connected = True
        self.base = 0
        self.answer: list[int] = []
        self.stalls = 0
        self.resyncs = 0
        self.longest_queue = 0
        self.longest_channel = 0

    def session(self, role: Role) -> Session:
        return self.device if role is Role.DEVICE else self.cloud

    def collect(self) -> None:
        """Carry away what the sessions have to say, and start what they want decoded."""
        for role, other in ((Role.DEVICE, Role.CLOUD), (Role.CLOUD, Role.DEVICE)):
            session = self.session(role)
            messages = session.take_outbox()
            for message in messages:
                if isinstance(message, Correction):
                    end = message.position + len(message.tokens)
                    stands = tuple(session.committed[message.position : end])
                    assert message.tokens == stands, "a word was sent that does not stand"
            self.resyncs += sum(isinstance(message, Join) for message in messages)
            if self.connected:
                self.channels[other].extend(messages)
            if role not in self.works and (work := session.next_work()):
                self.works[role] = work
            self.longest_queue = max(self.longest_queue, len(session.queues))
            self.longest_channel = max(self.longest_channel, len(self.channels[other]))
        self.answer.extend(self.device.take_commits())

    def step(self) -> None:
        """One random event; a standstill is what a driver sees as a stall."""
        self.collect()
        works = [role for role in self.works if role not in self.frozen]
        mail = [role for role, queue in self.channels.items() if queue and role not in self.frozen]
        if not works and not mail:
            self.stalls += not self.device.finished
            self.device.stalled()
        else:
            chosen = self.chance.randrange(len(works) + len(mail))
            if chosen < len(works):
                self.decode(works[chosen])
            else:
                self.deliver(mail[chosen - len(works)])
        self.collect()

    def deliver(self, role: Role) -> None:
        """The next message in flight arrives at `role`."""
        message = self.channels[role].popleft()
        self.delivered.append((role, message))
        before = self.cloud.incarnation
        self.session(role).receive(message)
        if isinstance(message, Join) and self.cloud.incarnation != before:
            known = message.base + len(message.tail)
            assert self.cloud.committed == self.device.committed[:known], "a join must repair"

    def decode(self, role: Role) -> None:
        session, work = self.session(role), self.works.pop(role)
        if session.stale and self.chance.random() < 0.5:
            # Preempted between layers: what was written past `keep` is worthless.
            del self.decoders[role].fed[work.keep :]
            session.complete(None)
        else:
            decoder = self.decoders[role]
            sides = decoder.run(work, self.likeness)
            session.complete(sides, 0, decoder.log_likelihood)

    def run(self, steps: int = 20_000) -> list[int]:
        """Run until the device has its answer."""
        for _ in range(steps):
            if self.device.finished:
                return self.answer
            self.step()
        raise AssertionError("the answer never ends")

    def drain(self) -> None:
        """All that is in flight arrives."""
        while any(self.channels.values()):
            for role, channel in self.channels.items():
                if channel:
                    self.deliver(role)
            self.collect()

    # The connection.

    def cut(self, survivors: int) -> None:
        """The connection breaks: only the first messages of those in flight arrive, each way."""
        for role in Role:
            for _ in range(min(survivors, len(self.channels[role]))):
                self.deliver(role)
            self.channels[role].clear()
        self.collect()
        self.connected = False
        self.device.lose()
        for channel in self.channels.values():
            channel.clear()
        self.works.pop(Role.CLOUD, None)
        self.frozen.discard(Role.CLOUD)
        self.cloud = self.make(Role.CLOUD, joint=False)
        self.decoders[Role.CLOUD] = ToyDecoder(Role.CLOUD)
        self.collect()

    def reopen(self) -> None:
        """A new connection and a new cloud session, opened with what is committed by now."""
        self.base = len(self.device.committed)
        self.cloud = self.make(Role.CLOUD, committed=list(self.device.committed), joint=False)
        self.connected = True

    def join(self) -> None:
        """The new cloud is ready: it takes part from here on."""
        if not self.device.joint:
            self.device.join(self.base)
            self.resyncs -= self.device.joint  # its message is not one of a resync
            self.collect()
