"""The session under fire: whatever happens on the way, one text, and no deadlock."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.protocol.messages import Correction, Draft, Limits, Target
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled
from dragon.protocol.rules.speculative import Speculative
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from tests.dragon.protocol.fire import (
    CORRUPTIONS,
    RULES,
    Battle,
    Fault,
    Kind,
    Schedule,
    corrupted,
    rule_of,
    schedule,
)
from tests.dragon.protocol.toy import END, World, reference

KINDS: tuple[type[Rule], ...] = (OneWay, Coupled, Speculative)
LIMITS = Limits(frozenset({END}), 10)

schedules = st.randoms(use_true_random=False).map(schedule)


@settings(max_examples=1000)
@given(schedules)
def test_any_faults(plan: Schedule) -> None:
    Battle(plan).run()


@pytest.mark.parametrize("number", ["31/1213", "32/2357", "32/11012", "33/8385"])
def test_a_lost_draft_of_a_token_that_was_certified_is_noticed(number: str) -> None:
    """What the cloud drafts behind it is conditioned on a token that the text does not have."""
    Battle(schedule(random.Random(number))).run()


@settings(max_examples=150)
@given(schedules)
def test_no_fault(plan: Schedule) -> None:
    outcome = Battle(replace(plan, faults=())).run()
    assert (outcome.stalls, outcome.resyncs) == (0, 0)


@settings(max_examples=150)
@given(schedules, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=3))
def test_a_cloud_that_dies_and_comes_back_again_and_again(
    plan: Schedule, deaths: list[tuple[int, int]]
) -> None:
    faults = tuple(Fault(at, Kind.CUT, Role.CLOUD, size, size // 2) for at, size in deaths)
    Battle(replace(plan, faults=faults)).run()


@settings(max_examples=150)
@given(schedules.filter(lambda plan: bool(plan.faults)), st.sampled_from(RULES))
def test_faults_in_every_mode(plan: Schedule, rule: type[Rule]) -> None:
    # A sampling that every mode takes.
    sampling = replace(
        plan.sampling, temperature=float(plan.seed % 2), top_p=1.0, top_k=0, min_p=0.0
    )
    Battle(replace(plan, rule=rule, sampling=sampling)).run()


def world_of(number: int, rule: type[Rule]) -> tuple[World, Sampling, float]:
    sampling = Sampling(temperature=float(number % 2), seed=number)
    likeness = (0.3, 0.7, 1.0)[number % 3]
    world = World(
        number,
        sampling,
        LIMITS,
        rule=rule_of(rule, number, certificates=number % 2 == 0),
        catch_up=number % 4 > 1,
        window=4,
        likeness=likeness,
    )
    return world, sampling, likeness


def deliveries(number: int, rule: type[Rule]) -> int:
    world, _, _ = world_of(number, rule)
    world.run()
    return len(world.delivered)


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("rule", KINDS)
def test_connection_cut_at_every_frame_boundary(number: int, back: bool, rule: type[Rule]) -> None:
    speculative = rule is Speculative
    for boundary in range(deliveries(number, rule) + 1):
        world, sampling, likeness = world_of(number, rule)
        while len(world.delivered) < boundary:
            world.step()
        world.cut(0)
        if back:
            world.reopen()
            world.step()
            world.join()
        text = world.run()
        intervals = world.device.intervals()
        assert text == reference(sampling, LIMITS, intervals, likeness, speculative=speculative)
        assert (world.stalls, world.resyncs) == (0, 0)
        world.drain()
        if world.device.joint:
            known = len(world.cloud.committed) if rule is OneWay else None
            assert world.cloud.committed == text[:known]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("how", [*CORRUPTIONS, "lost", "twice"])
@pytest.mark.parametrize("rule", KINDS)
def test_one_fault_at_every_frame(number: int, how: str, rule: type[Rule]) -> None:
    speculative = rule is Speculative
    for index in range(deliveries(number, rule)):
        world, sampling, likeness = world_of(number, rule)
        struck = False
        while not world.device.finished:
            for channel in world.channels.values():
                if not struck and channel and len(world.delivered) >= index:
                    struck = isinstance(channel[0], (Draft, Target, Correction))
                    if struck and how == "lost":
                        channel.popleft()
                    elif struck and how == "twice":
                        channel.appendleft(channel[0])
                    elif struck:
                        channel[0] = corrupted(channel[0], how)
            assert len(world.delivered) < 2_000
            world.step()
        assert world.answer == world.device.committed
        # One fault costs a stall or two, never the cloud.
        assert world.stalls <= 2
        assert world.resyncs <= 3
        assert world.device.joint
        # These three change what is mixed; an old frame of a new epoch is for another text.
        if how not in ("token", "log h", "epoch"):
            joint = [(0, LIMITS.tokens)]
            assert world.answer == reference(
                sampling, LIMITS, joint, likeness, speculative=speculative
            )
