"""Replayed verdicts take as long as sessions that sample, and as long as theory says."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest

from bench.lib.acceptances import algorithm_1
from bench.simulation import simulation
from bench.simulation.simulation import Clock, World
from dragon.protocol.aggregator_policy import Aggregated, Schedule, Scheduler
from dragon.protocol.messages import Limits
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled, Tokenwise
from dragon.protocol.rules.speculative import Speculative, algorithm1_draft
from dragon.protocol.session import Session
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import ToyDecoder, toy_side

TOKENS = 60
LIMITS = Limits(frozenset(), TOKENS)


def played(
    world: World, rule: Callable[[Session], Rule], catch_up: bool, sampling: Sampling
) -> tuple[float, list[int]]:
    """Seconds and text of sessions that sample from toy decoders."""
    assert world.windows is not None
    decoders = {role: ToyDecoder(role) for role in Role}
    sessions = {
        role: Session(role, sampling, LIMITS, rule, catch_up=catch_up, window=window)
        for role, window in zip(Role, world.windows, strict=True)
    }
    clock = Clock(world, sessions, lambda role, work: decoders[role].run(work, 0.6))
    return clock.play().seconds, sessions[Role.DEVICE].committed


Choosing = Callable[[Role, Side, Sampling, int], int]


def coupled_draft(_: Role, side: Side, sampling: Sampling, position: int) -> int:
    return mixture.draft(side, sampling, position)


def accepted(
    text: list[int], sampling: Sampling, rule: Choosing = coupled_draft
) -> list[tuple[bool, bool]]:
    """Whose draft each token of a text was."""

    def hit(role: Role, position: int) -> bool:
        side = toy_side(role, tuple(text[:position]), 0.6)
        return rule(role, side, sampling, position) == text[position]

    return [(hit(Role.DEVICE, i), hit(Role.CLOUD, i)) for i in range(len(text))]


# Times in units of 2^-12 s, so that what happens at the same time does so exactly.
WORLDS = [
    World(device / 4096, cloud / 4096, rtt / 4096, windows=windows, ahead_s=ahead / 4096)
    for device, cloud, rtt, windows, ahead in (
        (205, 205, 1232, (7, 7), 0),
        (413, 126, 0, (2, 4), 0),
        (413, 126, 1232, (4, 11), 22),
        (126, 413, 614, (3, 2), 7),
        (123, 126, 3684, (64, 5), 6),
    )
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("catch_up", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_coupled_takes_as_long_as_sampling(world: World, catch_up: bool, seed: int) -> None:
    sampling = Sampling(1.0, 1.0, seed)
    seconds, text = played(world, Coupled, catch_up, sampling)
    simulated = simulation.coupled(world, accepted(text, sampling), catch_up=catch_up)
    assert simulated.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("world", WORLDS)
def test_tokenwise_takes_as_long_as_sampling(world: World) -> None:
    sampling = Sampling(1.0, 1.0, 5)
    seconds, text = played(world, Tokenwise, False, sampling)
    drafts = accepted(text, sampling)
    assert simulation.tokenwise(world, drafts).seconds == pytest.approx(seconds)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("schedule", [Schedule.DEVICE, Schedule.CLOUD, Schedule.RANDOM])
def test_speculative_takes_as_long_as_sampling(world: World, schedule: Schedule) -> None:
    sampling = Sampling(1.0, 1.0, 9)
    scheduler = Scheduler(schedule, 4)
    seen: list[Aggregated] = []

    def following(role: Role, _device: Side, _cloud: Side, last: Aggregated) -> Role:
        seen.append(last)
        return scheduler.next(role, None, last)

    rule = partial(Speculative, first=scheduler.first, next_aggregator=following)
    seconds, text = played(world, rule, False, sampling)
    drafts = accepted(text, sampling, algorithm1_draft)
    simulated = simulation.speculative(world, drafts, schedule, 4)
    assert simulated.seconds == pytest.approx(seconds)
    assert [(last.device_accepted, last.cloud_accepted) for last in seen] == [
        one.accepted for one in simulated.aggregations
    ]


def test_a_stale_step_ends_with_its_layer() -> None:
    shared, _ = sequences()
    times = [
        simulation.coupled(World(0.05, 0.05, 0.33, layers=layers), shared[:500]).seconds
        for layers in (None, 16, 4, 1)
    ]
    assert times == sorted(times)
    assert times[-1] > 1.02 * times[0]


def test_what_needs_no_simulation() -> None:
    world = World(0.1, 0.03, 0.3)
    assert simulation.local(world, 11) == pytest.approx(1.0)
    # The device's answer is scored by the cloud, and the score comes back.
    assert simulation.sequencewise(world, 11) == pytest.approx(1.0 + 0.15 + 0.03 + 0.15)


# Milliseconds a token by mode, for pairs of distributions at TV 0.3 and T = 1.


def pair(chance: np.random.Generator, size: int = 20) -> tuple[Side, Side]:
    one = chance.dirichlet(np.full(size, 0.15))
    while True:
        other = chance.dirichlet(np.full(size, 0.15))
        if (distance := 0.5 * np.abs(one - other).sum()) > 0.3:
            break
    weights = [np.rint(p * 60_000) for p in (one, one + (other - one) * 0.3 / distance)]
    first, second = (
        Side(WireDistribution.of(np.flatnonzero(w), w[w > 0].astype(int)), 0) for w in weights
    )
    return first, second


@cache
def sequences() -> tuple[list[tuple[bool, bool]], list[tuple[bool, bool]]]:
    """Acceptances under shared noise, and of Algorithm 1."""
    chance = np.random.default_rng(0)
    shared, independent = [], []
    for position in range(3000):
        device, cloud = pair(chance)
        sampling = Sampling(1.0, 1.0, 7)
        target = mixture.target(device, cloud, sampling, position)
        drafts = [mixture.draft(side, sampling, position) for side in (device, cloud)]
        shared.append((drafts[0] == target, drafts[1] == target))
        independent.append(algorithm_1(device, cloud, sampling, position))
    return shared, independent


@pytest.mark.parametrize(
    ("device_ms", "cloud_ms", "rtt_ms", "tokenwise", "static", "coupled", "catch_up"),
    [
        (50, 50, 300, 350, 180, 76, 80),
        (100, 30, 0, 100, 100, 100, 55),
        (100, 30, 300, 330, 190, 113, 90),
    ],
)
def test_milliseconds_a_token(
    device_ms: int,
    cloud_ms: int,
    rtt_ms: int,
    tokenwise: float,
    static: float,
    coupled: float,
    catch_up: float,
) -> None:
    shared, independent = sequences()
    world = World(device_ms / 1e3, cloud_ms / 1e3, rtt_ms / 1e3, ahead_s=0.05 * device_ms / 1e3)
    one = World(device_ms / 1e3, cloud_ms / 1e3, rtt_ms / 1e3, windows=(1, 1))
    ms = 1e3 / len(shared)
    speculative = simulation.speculative(world, independent, Schedule.DEVICE).seconds
    exchanged = simulation.coupled(one, shared).seconds
    assert simulation.speculative(one, independent, Schedule.DEVICE).seconds * ms == pytest.approx(
        tokenwise, rel=0.01
    )
    assert speculative * ms == pytest.approx(static, rel=0.1)
    assert exchanged * ms == pytest.approx(max(device_ms, cloud_ms) + rtt_ms / 2, rel=0.3)
    assert simulation.coupled(world, shared).seconds * ms == pytest.approx(coupled, rel=0.1)
    joint = simulation.coupled(world, shared, catch_up=True).seconds * ms
    assert joint == pytest.approx(catch_up, rel=0.1)


@pytest.mark.parametrize(("accept_device", "ms"), [(0.0, 168.7), (0.9, 138.2)])
def test_buffered_local_drafts_catch_up(accept_device: float, ms: float) -> None:
    """DRAGON, arXiv 2504.11197, Corollary 3 is false where the local side is the slower one."""
    chance = random.Random(1)
    drawn = [(chance.random() < accept_device, chance.random() < 0.8) for _ in range(2_000)]
    world = World(0.13, 0.02, 0.3)
    run = simulation.speculative(world, drawn, Schedule.DEVICE)
    assert run.seconds / 2 == pytest.approx(ms, rel=0.02)


@pytest.mark.parametrize("schedule", Schedule)
def test_an_answer_is_replayed_with_the_sides_that_aggregated_it(schedule: Schedule) -> None:
    """An answer that says who aggregated takes as long as with the schedule that chose so."""
    draw = random.Random(3)
    verdicts = [(draw.random() < 0.7, draw.random() < 0.6) for _ in range(TOKENS)]
    world = World(0.05, 0.05, 0.3)
    run = simulation.speculative(world, verdicts, schedule)
    sides = [one.side for one in run.aggregations]
    assert simulation.handed_over(world, verdicts, sides).seconds == run.seconds
