"""A virtual clock that drives the real sessions of `dragon.protocol` through one answer.

Time is only decode delays and the way between the sides. `coupled` and `speculative` replay given
verdicts: at temperature 0 the sides get distributions whose drafts and target agree as the verdicts
say, and the sessions do the rest (drafting, judging, rolling back, catching up, handing over).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.simulation.timeline import Aggregation, Run, Span, SpanKind
from dragon.inference.estimates import draft_window
from dragon.protocol.aggregator_policy import Aggregated, Conditions, Schedule, Scheduler
from dragon.protocol.messages import Correction, Draft, Limits, SessionMessage, Target, Work
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled
from dragon.protocol.rules.speculative import Speculative
from dragon.protocol.session import Session
from dragon.sampling.mixture import LOG_H_STEPS, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role

# The jitter of DRAGON, arXiv 2504.11197, section 7.4, is a sine of period 20 pi seconds.
_JITTER_S = 10.0
_GREEDY = Sampling(temperature=0.0)

Accepted = Sequence[tuple[bool, bool]]
Decode = Callable[[Role, Work], Sequence[Side]]


@dataclass(frozen=True)
class World:
    """The conditions of an answer; times in seconds, pairs for device and cloud.

    `windows` are how many drafts ahead a side goes, None what the services take. `ahead_s` is what
    each further token of a catch-up adds to a step. A stale step ends at the next of its `layers`,
    or at once where that is None. The round trip swings by the share `jitter`.
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

    def decode_s(self, role: Role) -> float:
        """Seconds of a step of one token."""
        return self.device_s if role is Role.DEVICE else self.cloud_s

    def window(self, role: Role) -> int:
        """How many drafts ahead a side goes."""
        if self.windows is not None:
            return self.windows[role is Role.CLOUD]
        own, other = self.decode_s(role), self.decode_s(role.other)
        return draft_window(self.rtt_s, own, other)


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


def tokenwise(world: World, accepted: Accepted) -> Run:
    """Nothing is speculated: a round trip a token, whatever is accepted."""
    return speculative(replace(world, windows=(1, 1)), accepted, Schedule.DEVICE)


def coupled(world: World, accepted: Accepted, *, catch_up: bool = False) -> Run:
    """Both sides compute each target; with a window of 1 nothing is speculated ("exchange")."""
    sessions = _sessions(world, accepted, Coupled, catch_up=catch_up)
    return Clock(world, sessions, _verdicts(accepted)).play()


def oneway(world: World, accepted: Accepted, *, catch_up: bool = False) -> Run:
    """The device computes each target and corrects the cloud's drafts; without certificates."""
    sessions = _sessions(world, accepted, OneWay, catch_up=catch_up)
    return Clock(world, sessions, _verdicts(accepted)).play()


def handed_over(world: World, accepted: Accepted, aggregators: Sequence[Role]) -> Run:
    """Algorithm 1 with the given side aggregating each token."""
    sides = iter([*aggregators[1:], aggregators[-1]])
    rule = partial(Speculative, first=aggregators[0], next_aggregator=lambda *_: next(sides))
    sessions = _sessions(world, accepted, rule, catch_up=False)
    return Clock(world, sessions, _verdicts(accepted)).play()


def speculative(world: World, accepted: Accepted, schedule: Schedule, seed: int = 0) -> Run:
    """Algorithm 1."""
    scheduler = Scheduler(schedule, seed)
    hits = [1, 1]  # acceptances are the means so far, begun with one success in two trials

    def following(aggregator: Role, _device: Side, _cloud: Side, last: Aggregated) -> Role:
        verdict = last.device_accepted, last.cloud_accepted
        position = len(clock.run.aggregations)
        clock.run.aggregations.append(Aggregation(aggregator, position, clock.now, verdict))
        hits[0] += last.device_accepted
        hits[1] += last.cloud_accepted
        device, cloud = (count / (position + 3) for count in hits)
        conditions = Conditions(world.device_s, world.cloud_s, world.rtt(clock.now), device, cloud)
        return scheduler.next(aggregator, conditions, last)

    rule = partial(Speculative, first=scheduler.first, next_aggregator=following)
    sessions = _sessions(world, accepted, rule, catch_up=False)
    clock = Clock(world, sessions, _verdicts(accepted))
    return clock.play()


def _sessions(
    world: World, accepted: Accepted, rule: Callable[[Session], Rule], *, catch_up: bool
) -> dict[Role, Session]:
    limits = Limits(frozenset(), len(accepted))
    return {
        role: Session(role, _GREEDY, limits, rule, catch_up=catch_up, window=world.window(role))
        for role in Role
    }


@dataclass(slots=True)
class _Step:
    """A decoding step under way; times in seconds."""

    work: Work
    start: float
    end: float
    stale: bool = False


class Clock:
    """Drives two sessions and their decoders until the device has the whole answer."""

    def __init__(self, world: World, sessions: Mapping[Role, Session], decode: Decode) -> None:
        self.run = Run()
        self.now = 0.0
        self._world = world
        self._sessions = sessions
        self._decode = decode
        self._steps: dict[Role, _Step] = {}
        self._events: list[tuple[float, bool, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def play(self) -> Run:
        """Run until the device has the whole answer; what happened, and when."""
        for role in Role:
            self._advance(role)
        while not self._sessions[Role.DEVICE].finished:
            self.now, _, _, event = heapq.heappop(self._events)
            event()
        self.run.seconds = self.now
        return self.run

    def _at(self, time: float, event: Callable[[], None], *, decoded: bool) -> None:
        """Messages are received before steps that end at the same time."""
        heapq.heappush(self._events, (time, decoded, next(self._order), event))

    def _advance(self, role: Role) -> None:
        session = self._sessions[role]
        step = self._steps.get(role)
        if step is not None and session.stale and not step.stale:
            self._abandon(role, step)
        for message in session.take_outbox():
            self._send(role, message)
        if role not in self._steps and (work := session.next_work()):
            fed = len(work.tokens)  # the first distribution is that of the prefill
            lasts = self._world.decode_s(role) + (fed - 1) * self._world.ahead_s if fed else 0.0
            step = self._steps[role] = _Step(work, self.now, self.now + lasts)
            self._at(step.end, partial(self._complete, role, step), decoded=True)

    def _abandon(self, role: Role, step: _Step) -> None:
        step.stale = True
        if self._world.layers is None:
            step.end = self.now
        else:
            layer = self._world.decode_s(role) / self._world.layers
            over = step.start + layer * math.ceil((self.now - step.start) / layer)
            step.end = min(step.end, over)
        if step.end <= self.now:
            self._finish(role, step)
        else:
            self._at(step.end, partial(self._complete, role, step), decoded=True)

    def _complete(self, role: Role, step: _Step) -> None:
        if self._steps.get(role) is step:
            self._finish(role, step)
            self._advance(role)

    def _finish(self, role: Role, step: _Step) -> None:
        del self._steps[role]
        kind = SpanKind.WASTED if step.stale else SpanKind.DECODE
        self.run.spans.append(Span(kind, role, _positions(step.work)[0], step.start, self.now))
        sides = None if step.stale else self._decode(role, step.work)
        self._sessions[role].complete(sides)

    def _send(self, role: Role, message: SessionMessage) -> None:
        assert isinstance(message, Draft | Target | Correction), "no faults are simulated"
        arrival = self.now + self._world.rtt(self.now) / 2
        kind = SpanKind.DRAFT if isinstance(message, Draft) else SpanKind.TARGET
        self.run.spans.append(Span(kind, role, message.position, self.now, arrival))
        self._at(arrival, partial(self._receive, role.other, message), decoded=False)

    def _receive(self, role: Role, message: SessionMessage) -> None:
        self._sessions[role].receive(message)
        self._advance(role)


def _positions(work: Work) -> range:
    """The positions whose distributions are the work's outputs."""
    end = work.keep + len(work.tokens) + 1
    return range(end - work.outputs, end)


def _verdicts(accepted: Accepted) -> Decode:
    """Distributions of each position whose greedy drafts are accepted as given."""

    def decode(role: Role, work: Work) -> list[Side]:
        return [_SIDES[accepted[p]][role is Role.CLOUD] for p in _positions(work)]

    return decode


def _side(log_h: int, **weights: int) -> Side:
    """Weights of the tokens a, b and c."""
    tokens = {"abc".index(name): weight for name, weight in weights.items()}
    return Side(WireDistribution.of(list(tokens), list(tokens.values())), log_h)


# Where the sides disagree the heavier one has the target; where neither has it, it is c, which is
# the second choice of both.
_SIDES = {
    (True, True): (_side(0, a=1), _side(0, a=1)),
    (True, False): (_side(LOG_H_STEPS, a=1), _side(0, b=1)),
    (False, True): (_side(0, a=1), _side(LOG_H_STEPS, b=1)),
    (False, False): (_side(0, a=3, c=2), _side(0, b=3, c=2)),
}
