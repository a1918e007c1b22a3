"""A simulated fleet on a heap of events: devices ask, replicas write, fail and come back.

A replica works in turns, as its engine does: at most one opening (a search and a prefill), then a
token of every answer. An answer without a place is told when to come back by the peer's own rule;
its device goes on alone meanwhile, as it does when its replica fails, then asks another replica.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from dragon.inference.estimates import Estimate
from peer.context import ReturnTimes

_RECONNECT_S = 0.5


@dataclass(frozen=True)
class Costs:
    """Seconds of a replica: for an opening, for a turn, and for a token of each answer in it.

    `idle` is the share of a core that each connected device takes.
    """

    opening_s: float
    turn_s: float
    token_s: float
    idle: float = 0.0


@dataclass(frozen=True)
class Fleet:
    """Devices that ask every `every_s` seconds on average, and replicas of `places` places each.

    A device takes a token in `device_s`, alone or not; the cloud drafts meanwhile. Its first token
    waits for the cloud for `deadline_s`. A replica fails after `failing_s` on average, and is back
    after `restart_s`.
    """

    devices: int
    every_s: float
    replicas: int
    tokens: int = 100
    device_s: float = 0.03
    deadline_s: float = 2.0
    places: int = 128
    failing_s: float = math.inf
    restart_s: float = 30.0


@dataclass(eq=False)
class Answer:
    """An answer as far as it is written, `joint` tokens of it with the cloud.

    It may be `placed` at a replica and still be written alone until it is opened there.
    """

    device: int
    asked: float
    tokens: int
    placed: bool = False
    placed_at: float = 0.0
    first: float | None = None
    last: float = 0.0
    stepped: float = -math.inf
    written: int = 0
    joint: int = 0
    alone_since: float | None = None
    alone_from: int = 0
    joined: bool = False


@dataclass(eq=False)
class Replica:
    """A peer: the answers that it writes, and those that it has yet to open."""

    up: bool = True
    working: bool = False
    busy_s: float = 0.0
    answers: list[Answer] = field(default_factory=list)
    openings: list[Answer] = field(default_factory=list)
    turns: ReturnTimes = field(default_factory=ReturnTimes)
    lasting: Estimate = field(default_factory=lambda: Estimate(5.0))

    @property
    def taken(self) -> int:
        """The number of places that are taken."""
        return len(self.answers) + len(self.openings)


@dataclass
class Outcome:
    """What came of the answers. `counts` has `asked`, `refused`, `failed` (replicas), `rejoined`.

    `ended` are all that have ended; `busy` is the share of the replicas' time that was worked. A
    text that was begun alone counts as rejoined, too, when the cloud comes.
    """

    counts: Counter[str] = field(default_factory=Counter)
    ended: list[Answer] = field(default_factory=list)
    busy: float = 0.0

    @property
    def whole(self) -> float:
        """The share of answers that the cloud wrote from their first token to the last."""
        whole = sum(answer.joint == answer.tokens for answer in self.ended)
        return whole / max(1, len(self.ended))

    def first_s(self) -> list[float]:
        """Seconds to the first token, in order."""
        return sorted(each.first - each.asked for each in self.ended if each.first is not None)

    def token_s(self) -> list[float]:
        """Seconds a token from the first one on, in order."""
        return sorted(
            (each.last - each.first) / (each.tokens - 1)
            for each in self.ended
            if each.first is not None and each.tokens > 1
        )


class Simulation:
    """Runs a fleet from its first question on; the same seed gives the same outcome."""

    def __init__(self, fleet: Fleet, costs: Costs, seed: int = 0) -> None:
        self.now = 0.0
        self.outcome = Outcome()
        self._fleet = fleet
        self._costs = costs
        self._chance = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._replicas = [Replica() for _ in range(fleet.replicas)]
        self._homes = [self._replicas[number % fleet.replicas] for number in range(fleet.devices)]

    def run(self, seconds: float) -> Outcome:
        """Ask for that long, and continue until all answers are written."""
        for device in range(self._fleet.devices):
            self._after(self._soon(self._fleet.every_s), partial(self.ask, device, seconds))
        if self._fleet.failing_s < math.inf:
            for replica in self._replicas:
                failing_s = self._soon(self._fleet.failing_s)
                self._after(failing_s, partial(self._fail, replica, seconds))
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            act()
        busy_s = sum(replica.busy_s for replica in self._replicas)
        self.outcome.busy = busy_s / (len(self._replicas) * max(self.now, seconds))
        return self.outcome

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act))

    def _soon(self, mean_s: float) -> float:
        return self._chance.expovariate(1.0 / mean_s)

    def ask(self, device: int, until: float) -> None:
        """Ask for a device now, and schedule its next question, if that is before `until`."""
        if self.now > until:
            return
        self.outcome.counts["asked"] += 1
        answer = Answer(device, self.now, self._fleet.tokens)
        self._seek(answer)
        if self._fleet.deadline_s < math.inf:
            self._after(self._fleet.deadline_s, partial(self._late, answer))
        self._after(self._soon(self._fleet.every_s), partial(self.ask, device, until))

    def _seek(self, answer: Answer) -> None:
        """Place it at its device's replica, or find out when to come back."""
        if answer.placed or answer.written == answer.tokens:
            return
        home = self._homes[answer.device]
        if home.up and home.taken < self._fleet.places:
            answer.placed, answer.placed_at = True, self.now
            home.openings.append(answer)
            self._work(home)
            return
        again_s: float = _RECONNECT_S
        if home.up:
            self.outcome.counts["refused"] += 1
            again_s = home.turns.next(self.now, home.lasting.value or 0.0, self._fleet.places)
        up = [replica for replica in self._replicas if replica.up]
        best = min(up, key=lambda replica: replica.taken, default=home)
        if best is not home and best.taken < self._fleet.places:
            self._homes[answer.device], again_s = best, _RECONNECT_S
        if again_s > self._fleet.deadline_s:
            self._alone(answer)
        self._after(again_s, partial(self._seek, answer))

    def _late(self, answer: Answer) -> None:
        """The first token waits no longer."""
        if not answer.written and not answer.joined:
            self._alone(answer)

    def _alone(self, answer: Answer) -> None:
        """Let its device write alone from now on."""
        if answer.alone_since is None and answer.written < answer.tokens:
            answer.alone_since, answer.alone_from = self.now, answer.written
            left_s = (answer.tokens - answer.written) * self._fleet.device_s
            self._after(left_s, partial(self._end_alone, answer, self.now))

    def _end_alone(self, answer: Answer, since: float) -> None:
        if answer.alone_since == since:
            self._with(answer)
            self.outcome.ended.append(answer)

    def _with(self, answer: Answer) -> None:
        """End writing alone, and count what the device has written by now."""
        if (since := answer.alone_since) is None:
            return
        step_s, answer.alone_since = self._fleet.device_s, None
        count = min(round((self.now - since) / step_s), answer.tokens - answer.alone_from)
        if count:
            answer.first = answer.first or since + step_s
            answer.last = since + count * step_s
            answer.written = answer.alone_from + count

    def _work(self, replica: Replica) -> None:
        """Begin a turn, unless one is under way or there is nothing to do."""
        if replica.working or not replica.up or not replica.taken:
            return
        opened = replica.openings[0] if replica.openings else None
        ready = self.now - 0.999 * self._fleet.device_s
        written = [each for each in replica.answers if each.stepped <= ready]
        if opened is None and not written:
            stepped = min(each.stepped for each in replica.answers)
            rest_s = stepped + self._fleet.device_s - self.now
            self._after(rest_s, partial(self._work, replica))
            return
        for answer in written:
            answer.stepped = self.now
        costs = self._costs
        took = costs.opening_s if opened is not None else 0.0
        took += costs.turn_s + costs.token_s * len(written) if written else 0.0
        took /= 1.0 - costs.idle * self._fleet.devices / self._fleet.replicas
        replica.working = True
        replica.busy_s += took
        self._after(took, partial(self._turned, replica, opened, written))

    def _turned(self, replica: Replica, opened: Answer | None, written: list[Answer]) -> None:
        """The turn is over."""
        replica.working = False
        if not replica.up:
            return  # it has failed in the middle
        for answer in written:
            answer.written += 1
            answer.joint += 1
            answer.last = self.now
            if answer.first is None:
                answer.first = self.now
            if answer.written == answer.tokens:
                replica.answers.remove(answer)
                replica.lasting.add(self.now - answer.placed_at)
                self.outcome.ended.append(answer)
        if opened is not None:
            replica.openings.remove(opened)
            self._take_in(replica, opened)
        self._work(replica)

    def _take_in(self, replica: Replica, answer: Answer) -> None:
        alone = answer.alone_since is not None
        self._with(answer)
        if answer.written < answer.tokens:
            self.outcome.counts["rejoined"] += answer.written > 0
            answer.joined = True
            replica.answers.append(answer)
        elif alone:  # just now; else it had ended before it was its turn
            self.outcome.ended.append(answer)

    def _fail(self, replica: Replica, until: float) -> None:
        """End a replica: its answers go on alone and look for another one."""
        if self.now > until:
            return
        self.outcome.counts["failed"] += 1
        replica.up = False
        lost = [*replica.answers, *replica.openings]
        replica.answers, replica.openings = [], []
        for answer in lost:
            answer.placed = False
            self._alone(answer)
            self._after(_RECONNECT_S, partial(self._seek, answer))
        self._after(self._fleet.restart_s, partial(self._back, replica, until))

    def _back(self, replica: Replica, until: float) -> None:
        replica.up = True
        self._after(self._soon(self._fleet.failing_s), partial(self._fail, replica, until))
