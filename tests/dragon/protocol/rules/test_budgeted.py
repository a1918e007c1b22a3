"""One-way with a budget: the text of a slow loop, within what it may spend, whatever happens."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.protocol.messages import Limits
from dragon.protocol.rules.oneway import Budgeted, OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.session import Session
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import Budget, bare_of, bounded, drawn
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, World, toy_side

LIMITS = Limits(frozenset({END}), 12)
KEY = b"nobody else has it"


def slow(sampling: Sampling, budget: Budget) -> list[int]:
    text: list[int] = []
    while len(text) < LIMITS.tokens and not (text and text[-1] in LIMITS.end_ids):
        device, cloud = (toy_side(role, tuple(text)) for role in (Role.DEVICE, Role.CLOUD))
        target = bounded(
            device.wire, bare_of(device), cloud.wire, sampling, budget.order, budget.allowance
        )
        budget.charge(target.cost)
        text.append(drawn(target.ids, target.log_p, KEY, len(text)))
    return text


def world(
    seed: int, sampling: Sampling, budget: Budget, *, catch_up: bool = True, window: int = 8
) -> World:
    def rule(session: Session) -> Rule:
        if session.role is Role.CLOUD:
            return OneWay(session)
        return Budgeted(session, budget, KEY)

    return World(random.Random(seed), sampling, LIMITS, rule=rule, catch_up=catch_up, window=window)


@settings(max_examples=75)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from(TRUNCATIONS),
    st.sampled_from([1.0, 16.0]),
    st.booleans(),
    st.sampled_from([1, 3, 64]),
)
def test_its_text_is_that_of_a_slow_loop(
    seed: int,
    temperature: float,
    truncation: dict[str, Any],
    epsilon: float,
    catch_up: bool,
    window: int,
) -> None:
    sampling = Sampling(temperature, seed=seed % 16, **truncation)
    make = partial(Budget.of, epsilon, 4)
    budget, expected_budget = make(), make()
    expected = slow(sampling, expected_budget)
    run = world(seed, sampling, budget, catch_up=catch_up, window=window)
    assert run.run() == expected
    assert budget.spent == pytest.approx(expected_budget.spent)
    assert 0.0 < budget.epsilon <= epsilon * (1 + 1e-9)


@settings(max_examples=100)
@given(st.integers(0, 1 << 32))
def test_what_is_written_after_the_cloud_is_lost_never_goes_up(seed: int) -> None:
    run = world(seed, Sampling(), Budget.of(4.0, 8))
    for _ in range(random.Random(seed).randrange(60)):
        run.step()
    run.cut(0)
    delivered = len(run.delivered)
    run.reopen()
    run.join()
    assert not run.device.joint
    run.run()
    run.drain()
    assert run.delivered[delivered:] == []
