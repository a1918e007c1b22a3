"""The session under fire: random schedules with faults, and what must hold after each of them.

`python -m tests.dragon.protocol.fire --schedules 100000` runs many; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from dragon.protocol.messages import MAX_WINDOW, Correction, Draft, Limits, SessionMessage, Target
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled, Exchange, Tokenwise
from dragon.protocol.rules.speculative import Speculative
from dragon.protocol.session import Session
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, VOCABULARY, World, reference

CORRUPTIONS = (
    "token", "checksum", "epoch", "old epoch", "committed", "incarnation", "position", "log h",
    "verdict", "next",
)  # fmt: skip
# The modes, the likeliest ones more often.
RULES: tuple[type[Rule], ...]
RULES = (*[OneWay] * 4, *[Coupled] * 2, *[Speculative] * 2, Exchange, Tokenwise)


class Kind(StrEnum):
    """What goes wrong."""

    CUT = "cut"  # the connection breaks; perhaps the cloud comes back, perhaps repeatedly
    REPLAY = "replay"  # a frame of an old connection arrives
    TIMEOUT = "timeout"  # the device takes a slow moment for a stall
    FREEZE = "freeze"  # a side is stopped for a while
    DROP = "drop"  # a frame is lost, which TCP does not do
    DUPLICATE = "duplicate"  # a frame arrives twice, which TCP does not do
    HOLE = "hole"  # one way everything is lost for a while: a half-open link
    CORRUPT = "corrupt"  # a frame says something false


# Far more than any schedule takes that ends.
MAX_EVENTS = 5_000


class DeadlockError(AssertionError):
    """The answer never ends."""


@dataclass(frozen=True)
class Fault:
    """`at` counts events; `size` is a length, an index or a choice, by kind."""

    at: int
    kind: Kind
    victim: Role
    size: int
    back_after: int | None = None


@dataclass(frozen=True)
class Schedule:
    """One run, all of it: `seed` decides the interleaving."""

    seed: int
    sampling: Sampling
    tokens: int
    horizon: int
    window: int
    likeness: float
    catch_up: bool
    rule: type[Rule]
    certificates: bool
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    stalls: int
    resyncs: int
    longest_queue: int
    longest_channel: int


def schedule(chance: random.Random) -> Schedule:
    """A random schedule; the few seeds and likenesses let the toy models' answers be cached."""
    tokens = chance.randint(1, 14)
    faults = [
        Fault(
            at=chance.randrange(8 * tokens),
            kind=chance.choice(list(Kind)),
            victim=chance.choice(list(Role)),
            size=chance.choice([0, 1, 2, chance.randrange(64)]),
            back_after=chance.choice([None, 0, 1, 3, 8, 20]),
        )
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 5]))
    ]
    rule = chance.choice(RULES)
    plain = rule is Speculative
    return Schedule(
        seed=chance.randrange(1 << 32),
        sampling=Sampling(
            temperature=chance.choice([0.0, 1.0] if plain else [0.0, 0.0, 0.7, 1.0]),
            seed=chance.randrange(8),
            **({} if plain else chance.choice(TRUNCATIONS)),
        ),
        tokens=tokens,
        horizon=chance.choice([1 << 30, 1 << 30, 1 << 30, chance.randrange(tokens + 1)]),
        window=chance.choice([1, 2, 4, 8]),
        likeness=chance.choice([0.0, 0.6, 0.9, 1.0]),
        catch_up=chance.random() < 0.5,
        rule=rule,
        certificates=chance.random() < 0.7,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def corrupted(message: SessionMessage, how: str) -> SessionMessage:
    """A frame as a fault on the way would have made it; other kinds of message pass unharmed."""
    match message, how:
        case (Correction(), "token"):
            change = {"tokens": tuple((token + 1) % VOCABULARY for token in message.tokens)}
        case (Draft() | Target(), "token"):
            change = {"token": (message.token + 1) % VOCABULARY}
        case (Draft() | Correction(), "checksum"):
            change = {"checksum": message.checksum ^ 1}
        case (Draft() | Correction() | Target(), "incarnation" | "position"):
            change = {how: getattr(message, how) + 1}
        case (Draft(), "epoch"):
            change = {"epoch": message.epoch + 1}
        case (Draft(), "old epoch"):
            change = {"epoch": max(0, message.epoch - 1)}
        case (Draft(), "committed"):
            change = {"committed": message.committed + 3}
        case (Draft(), "log h"):
            change = {"side": Side(message.side.wire, message.side.log_h + 700)}
        case (Target(), "verdict"):
            change = {"cloud_kept": not message.cloud_kept}
        case (Target(), "next"):
            change = {"next": message.next.other}
        case _:
            return message
    return replace(message, **change)


def rule_of(rule: type[Rule], seed: int, *, certificates: bool) -> Callable[[Session], Rule]:
    """What makes the rules of a mode; who aggregates next is drawn at random where one does."""
    if rule is OneWay:
        vocabulary = VOCABULARY if certificates else None
        return partial(OneWay, vocabulary=vocabulary)
    if rule is not Speculative:
        return rule
    chance = random.Random(seed)
    first = chance.choice(list(Role))
    return partial(Speculative, first=first, next_aggregator=lambda *_: chance.choice(list(Role)))


class Battle:
    """A world and the faults that are still to come."""

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.limits = Limits(frozenset({END}), plan.tokens, plan.horizon)
        self.world = World(
            plan.seed,
            plan.sampling,
            self.limits,
            rule=rule_of(plan.rule, plan.seed, certificates=plan.certificates),
            catch_up=plan.catch_up,
            window=plan.window,
            likeness=plan.likeness,
        )
        # A cloud without room for a single token: a driver learns it from `ready`.
        self.world.device.set_horizon(plan.horizon)
        self.faults = list(plan.faults)
        self.later: list[tuple[int, Callable[[], None]]] = []
        self.holes: set[Role] = set()
        self.old: list[tuple[Role, SessionMessage]] = []

    def run(self) -> Outcome:
        """Run to the end of the answer and check it; raises `AssertionError`."""
        world = self.world
        for now in range(MAX_EVENTS):
            due = [what for at, what in self.later if at <= now]
            self.later = [(at, what) for at, what in self.later if at > now]
            for what in due:
                what()
            # A fault that needs a frame waits for one.
            self.faults = [f for f in self.faults if f.at > now or not self._strike(f, now)]
            for role in self.holes:
                world.channels[role].clear()
            world.collect()
            if world.device.finished:
                self._check()
                return Outcome(
                    world.stalls, world.resyncs, world.longest_queue, world.longest_channel
                )
            world.step()
        raise DeadlockError

    def _strike(self, fault: Fault, now: int) -> bool:
        world, channel = self.world, self.world.channels[fault.victim]
        hot = (Draft, Target, Correction)
        frames = [i for i, message in enumerate(channel) if isinstance(message, hot)]
        match fault.kind:
            case Kind.CUT:
                self.old.extend((role, m) for role, queue in world.channels.items() for m in queue)
                world.cut(fault.size)
                self.old.extend(world.delivered)
                self.later.clear()
                self.holes.clear()
                if fault.back_after is not None:
                    self.later.append((now + fault.back_after, world.reopen))
                    self.later.append((now + fault.back_after + fault.size, world.join))
            case Kind.REPLAY if self.old and world.connected:
                role, message = self.old[fault.size % len(self.old)]
                world.channels[role].insert(fault.size % 3, message)
            case Kind.TIMEOUT:
                world.device.stalled()
            case Kind.FREEZE:
                world.frozen.add(Role.CLOUD)
                self.later.append((now + fault.size, world.frozen.clear))
            case Kind.HOLE:
                self.holes.add(fault.victim)
                self.later.append((now + fault.size, self.holes.clear))
            case Kind.DROP if channel:
                del channel[fault.size % len(channel)]
            case Kind.DUPLICATE if channel:
                channel.insert(fault.size % 7, channel[fault.size % len(channel)])
            case Kind.CORRUPT if frames:
                index = frames[fault.size // len(CORRUPTIONS) % len(frames)]
                how = CORRUPTIONS[fault.size % len(CORRUPTIONS)]
                channel[index] = corrupted(channel[index], how)
            case _:
                return False
        return True

    def _check(self) -> None:
        world, plan = self.world, self.plan
        kinds = {fault.kind for fault in plan.faults}
        assert world.answer == world.device.committed, "what was said is never taken back"
        if Kind.CORRUPT not in kinds:
            intervals = world.device.intervals()
            speculative = plan.rule is Speculative
            expected = reference(
                plan.sampling, self.limits, intervals, plan.likeness, speculative=speculative
            )
            assert world.answer == expected, "the text depends on the schedule"
        if kinds <= {Kind.CUT, Kind.REPLAY}:
            assert world.stalls == 0, "a standstill that no lost frame explains"
        if kinds <= {Kind.CUT}:
            assert world.resyncs == 0, "a resync that no false frame explains"
            world.drain()
            if world.device.joint:
                # One-way, the device does not say how the text ends.
                known = len(world.cloud.committed) if plan.rule is OneWay else None
                assert world.cloud.committed == world.answer[:known], "the sides differ at the end"
            # Own drafts and the other side's; nothing is held back for a prefix yet to come.
            assert world.longest_queue <= 2 * plan.window
        assert world.longest_queue <= plan.window + MAX_WINDOW


def main() -> int:
    """Many random schedules; counts, and the first few failures by number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts = {"schedules": args.schedules, "deadlocks": 0, "wrong": 0, "desyncs": 0, "stalls": 0}
    longest_queue = longest_channel = 0
    for number in range(args.schedules):
        try:
            outcome = Battle(schedule(random.Random(f"{args.seed}/{number}"))).run()
        except DeadlockError:
            counts["deadlocks"] += 1
            print(f"schedule {number}: the answer never ends", file=sys.stderr)
        except AssertionError as error:
            counts["wrong"] += 1
            print(f"schedule {number}: {error}", file=sys.stderr)
        else:
            counts["desyncs"] += outcome.resyncs
            counts["stalls"] += outcome.stalls
            longest_queue = max(longest_queue, outcome.longest_queue)
            longest_channel = max(longest_channel, outcome.longest_channel)
        if (number + 1) % 1000 == 0:
            print(f"{number + 1} of {args.schedules} {counts}", file=sys.stderr)
    counts |= {"longest_queue": longest_queue, "longest_channel": longest_channel}
    print(json.dumps(counts))
    return 1 if counts["deadlocks"] or counts["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
