"""An event simulation of one answer with two sides, as the sessions of `dragon.protocol` write it.

What a side says is reduced to whether its draft of a position is the target, given for every
position; time is only decode delays and the way between the sides. Everything else is as in the
sessions: queues of own and remote frames, epochs, the draft window, the restart of a side whose
draft was rejected as soon as it can know, catch-up, and the aggregating side of Algorithm 1.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.simulation.timeline import Aggregation, Run, Span, SpanKind
from dragon.inference.estimates import draft_window
from dragon.protocol.aggregator_policy import Aggregated, Conditions, Schedule, Scheduler
from dragon.sampling.role import Role

_ROLES = (Role.DEVICE, Role.CLOUD)
# The paper's jitter is a sinus of period 20 pi seconds (section 7.4).
_JITTER_S = 10.0

Accepted = Sequence[tuple[bool, bool]]


@dataclass(frozen=True)
class World:
    """Where an answer is written; times in seconds, pairs for device and cloud.

    `windows` are how many drafts ahead a side goes, None what the services take. `ahead_s` is what
    each further token of a catch-up adds to a step. A step that is no longer wanted ends at the
    next of its `layers`, or at once where that is None. The round trip swings by the share
    `jitter`.
    """

    device_s: float
    cloud_s: float
    rtt_s: float
    windows: tuple[int, int] | None = None
    ahead_s: float = 0.0
    layers: int | None = None
    jitter: float = 0.0

    def rtt(self, now: float) -> float:
        """The round trip at a time."""
        return self.rtt_s * (1.0 + self.jitter * math.sin(now / _JITTER_S))


def local(world: World, tokens: int) -> float:
    """Seconds for the device alone; the first token is that of the prefill."""
    return (tokens - 1) * world.device_s


def sequencewise(world: World, tokens: int) -> float:
    """Seconds until both whole answers were scored on both sides, a forward each."""
    way = world.rtt_s / 2
    device, cloud = (tokens - 1) * world.device_s, (tokens - 1) * world.cloud_s
    return max(
        max(device, cloud + way) + world.device_s,
        max(device + way, cloud) + world.cloud_s + way,
    )


def coupled(world: World, accepted: Accepted, *, catch_up: bool = False) -> Run:
    """Both sides compute each target; with a window of 1 nothing is speculated ("exchange")."""
    return _Simulation(world, accepted, None, catch_up).run()


def speculative(world: World, accepted: Accepted, schedule: Schedule, seed: int = 0) -> Run:
    """Algorithm 1; with the device aggregating and a window of 1 it is tokenwise."""
    return _Simulation(world, accepted, Scheduler(schedule, seed), False).run()


class _Draft(NamedTuple):
    epoch: int
    position: int
    hit: bool


class _Target(NamedTuple):
    accepted: tuple[bool, bool]
    following: Role


@dataclass(slots=True)
class _Work:
    """A step under way: remote drafts it feeds, and whether the text will have them."""

    position: int
    start: float
    end: float
    ahead: list[bool]
    version: int


@dataclass(slots=True)
class _Side:
    """The state of a session; queues hold whether each draft is the target."""

    index: int
    decode_s: float
    window: int
    committed: int = 0
    own: deque[bool] = field(default_factory=deque)
    remote: deque[bool] = field(default_factory=deque)
    own_epoch: int = 0
    remote_epoch: int = 0
    version: int = 0
    aggregates: bool = True
    work: _Work | None = None
    inbox: deque[tuple[float, _Draft | _Target]] = field(default_factory=deque)


class _Simulation:
    def __init__(
        self, world: World, accepted: Accepted, scheduler: Scheduler | None, catch_up: bool
    ) -> None:
        self._world = world
        self._accepted = accepted
        self._scheduler = scheduler
        self._catch_up = catch_up
        self._now = 0.0
        self._run = Run()
        decodes = (world.device_s, world.cloud_s)
        windows = world.windows or tuple(
            draft_window(world.rtt_s, own, other) for own, other in (decodes, decodes[::-1])
        )
        self._sides = tuple(_Side(i, decodes[i], windows[i]) for i in (0, 1))
        self._hits = [1, 1]
        if scheduler is not None:
            for side, role in zip(self._sides, _ROLES, strict=True):
                side.aggregates = role is scheduler.first

    def run(self) -> Run:
        device, cloud = self._sides
        for side in self._sides:
            self._begin(side)
        while device.committed < len(self._accepted):
            # What arrives is taken in before what is decoded at the same time.
            arrivals = _arrival(device), _arrival(cloud)
            decoded = _decoded(device), _decoded(cloud)
            if min(arrivals) <= min(decoded):
                side = device if arrivals[0] <= arrivals[1] else cloud
                self._now, message = side.inbox.popleft()
                self._receive(side, message)
            else:
                side = device if decoded[0] <= decoded[1] else cloud
                self._now = min(decoded)
                self._complete(side)
            self._preempt(side)
            self._begin(side)
        self._run.seconds = self._now
        return self._run

    # The decoder.

    def _begin(self, side: _Side) -> None:
        position = side.committed + len(side.own)
        if side.work is not None or not self._may_draft(side, position):
            return
        ahead: list[bool] = []
        if self._catch_up and not side.own and position > 0:
            ahead = list(side.remote)[: max(0, len(self._accepted) - position - 1)]
        fed = (position > 0) + len(ahead)  # the first distribution is that of the prefill
        duration = side.decode_s + (fed - 1) * self._world.ahead_s if fed else 0.0
        end = self._now + duration
        side.work = _Work(position, self._now, end, ahead, side.version)

    def _may_draft(self, side: _Side, position: int) -> bool:
        return position < len(self._accepted) and len(side.own) < side.window

    def _preempt(self, side: _Side) -> None:
        work, layers = side.work, self._world.layers
        if work is None or work.version == side.version:
            return
        if layers is None:
            work.end = self._now
        else:
            layer = side.decode_s / layers
            over = work.start + layer * math.ceil((self._now - work.start) / layer)
            work.end = min(work.end, over)
        if work.end <= self._now:
            self._complete(side)

    def _complete(self, side: _Side) -> None:
        work, side.work = side.work, None
        assert work is not None
        role, wasted = _ROLES[side.index], work.version != side.version
        kind = SpanKind.WASTED if wasted else SpanKind.DECODE
        self._run.spans.append(Span(kind, role, work.position, work.start, self._now))
        if wasted:
            return
        for fed_hit in (*work.ahead, True):
            position = side.committed + len(side.own)
            if not self._may_draft(side, position):
                break
            self._push(side, position)
            self._advance(side)
            if work.version != side.version or not fed_hit:
                break

    def _push(self, side: _Side, position: int) -> None:
        known = self._catch_up and side.remote and not side.own
        hit = True if known else self._accepted[position][side.index]
        side.own.append(hit)
        self._send(side, SpanKind.DRAFT, position, _Draft(side.own_epoch, position, hit))

    # The link.

    def _send(self, side: _Side, kind: SpanKind, position: int, message: _Draft | _Target) -> None:
        arrival = self._now + self._world.rtt(self._now) / 2
        self._sides[1 - side.index].inbox.append((arrival, message))
        self._run.spans.append(Span(kind, _ROLES[side.index], position, self._now, arrival))

    def _receive(self, side: _Side, message: _Draft | _Target) -> None:
        if isinstance(message, _Target):
            self._judge(side, message.accepted)
            side.aggregates = message.following is _ROLES[side.index]
            self._advance(side)
        elif message.epoch >= side.remote_epoch:
            assert message.position == side.committed + len(side.remote)
            side.remote.append(message.hit)
            self._advance(side)

    # Aggregation.

    def _advance(self, side: _Side) -> None:
        while side.aggregates and side.own and side.remote:
            position = side.committed
            if self._scheduler is None:
                heads = (side.own[0], side.remote[0])
                self._judge(side, heads if side.index == 0 else heads[::-1])
                continue
            accepted = self._accepted[position]
            self._judge(side, accepted)
            self._run.aggregations.append(
                Aggregation(_ROLES[side.index], position, self._now, accepted)
            )
            following = self._schedule(side, accepted, self._scheduler)
            side.aggregates = following is _ROLES[side.index]
            self._send(side, SpanKind.TARGET, position, _Target(accepted, following))

    def _judge(self, side: _Side, accepted: tuple[bool, bool]) -> None:
        side.committed += 1
        side.own.popleft()
        side.remote.popleft()
        if not accepted[1 - side.index]:
            side.remote.clear()
            side.remote_epoch += 1
        if not accepted[side.index]:
            side.own.clear()
            side.own_epoch += 1
            side.version += 1

    def _schedule(self, side: _Side, accepted: tuple[bool, bool], scheduler: Scheduler) -> Role:
        """Acceptances are the means so far, begun with one success in two trials."""
        for index in (0, 1):
            self._hits[index] += accepted[index]
        trials = side.committed + 2
        queued = (len(side.own), len(side.remote))
        conditions = Conditions(
            self._world.device_s,
            self._world.cloud_s,
            self._world.rtt(self._now),
            self._hits[0] / trials,
            self._hits[1] / trials,
        )
        last = Aggregated(*accepted, *(queued if side.index == 0 else queued[::-1]))
        return scheduler.next(_ROLES[side.index], conditions, last)


def _arrival(side: _Side) -> float:
    return side.inbox[0][0] if side.inbox else math.inf


def _decoded(side: _Side) -> float:
    return math.inf if side.work is None else side.work.end
