"""One-way aggregation: the text of the references, and nothing but words of it goes up.

Its certificates are never wrong, and miss little of what is certain; with a budget it writes the
text of a slow loop, within what it may spend.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.link import registry
from dragon.protocol.messages import Correction, Draft, Limits, Resync
from dragon.protocol.rules.oneway import Budgeted, OneWay, certified
from dragon.protocol.rules.rule import Rule
from dragon.protocol.session import Session
from dragon.sampling import mixture
from dragon.sampling.mixture import LOG_H_STEPS, Side
from dragon.sampling.params import Sampling
from dragon.sampling.privacy import Budget, bare_of, bounded, drawn
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, VOCABULARY, World, reference, toy_side

LIMITS = Limits(frozenset({END}), 12)
GREEDY = Sampling(temperature=0.0)
RULE = partial(OneWay, vocabulary=VOCABULARY)


def side(log_h: int = 0, **weights: int) -> Side:
    """Weights of the tokens a, b and c, which are 1, 2 and 3."""
    ids = ["_abc".index(name) for name in weights]
    return Side(WireDistribution.of(ids, list(weights.values())), log_h * LOG_H_STEPS)


CERTAIN = side(2, a=7, b=1)  # the draft is the target whatever a cloud of log h 0 says


def session(role: Role, vocabulary: int | None = VOCABULARY, window: int = 4) -> Session:
    return Session(role, GREEDY, LIMITS, partial(OneWay, vocabulary=vocabulary), window=window)


def decode(of: Session, *sides: Side) -> list[object]:
    """Run a step for each side and take what is sent."""
    for each in sides:
        assert of.next_work() is not None
        of.complete([each], 1000)
    return list(of.take_outbox())


@settings(max_examples=150)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.1, 0.7, 1.0]),
    st.sampled_from(TRUNCATIONS),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.booleans(),
    st.sampled_from([1, 3, 64]),
    st.booleans(),
)
def test_its_text_is_that_of_the_reference(
    seed: int,
    temperature: float,
    truncation: dict[str, Any],
    likeness: float,
    catch_up: bool,
    window: int,
    certificates: bool,
) -> None:
    sampling = Sampling(temperature, seed=seed % 16, **truncation)
    expected = reference(sampling, LIMITS, [(0, LIMITS.tokens)], likeness)
    world = World(
        seed,
        sampling,
        LIMITS,
        rule=RULE if certificates else OneWay,
        catch_up=catch_up,
        window=window,
        likeness=likeness,
    )
    assert world.run() == expected
    assert world.device.intervals() == ((0, len(expected)),)
    world.drain()
    assert world.cloud.committed == expected[: len(world.cloud.committed)]
    assert (world.stalls, world.resyncs) == (0, 0)
    up = [m for role, m in world.delivered if role is Role.CLOUD]
    down = [m for role, m in world.delivered if role is Role.DEVICE]
    assert all(isinstance(message, Draft) for message in down)
    for message in up:
        assert isinstance(message, Correction)
        end = message.position + len(message.tokens)
        assert list(message.tokens) == expected[message.position : end]


def test_where_the_cloud_was_right_only_a_count_goes_up() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    for draft in decode(cloud, side(a=1), side(b=1)):
        device.receive(draft)
    sent = decode(device, side(a=1), side(b=1))
    assert [(m.position, m.tokens) for m in sent] == [(1, ()), (2, ())]
    for message in sent:
        cloud.receive(message)
    assert device.committed == cloud.committed == [1, 2]
    assert (cloud.queues.own_epoch, device.queues.remote_epoch) == (0, 0)


def test_a_certain_token_waits_for_no_draft() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    late = decode(cloud, side(b=1), side(b=1))
    device.rule.weigh(0)
    assert decode(device, CERTAIN) == []
    assert device.committed == [1]
    (correction,) = decode(device, side(c=1))  # the cloud is needed here
    assert (correction.position, correction.tokens) == (0, (1,))
    for draft in late:  # of another token, and of what would have followed it
        device.receive(draft)
    assert device.committed == [1]
    cloud.receive(correction)
    (draft,) = decode(cloud, side(c=1))
    assert (draft.position, draft.epoch) == (1, 1)
    device.receive(draft)
    assert device.committed == [1, 3]


def test_a_certain_token_that_the_cloud_drafts_too_costs_it_nothing() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    late = decode(cloud, side(a=1), side(b=1), side(c=1))
    device.rule.weigh(0)
    (correction,) = decode(device, CERTAIN, side(b=1))
    for draft in late:
        device.receive(draft)
    cloud.receive(correction)
    assert (cloud.queues.own_epoch, device.queues.remote_epoch) == (0, 0)
    assert [d.token for d in cloud.queues.own] == [2, 3]
    assert device.committed == [1, 2]
    assert [d.token for d in device.queues.remote] == [3]


def test_an_answer_that_is_certain_to_its_end_leaves_no_word() -> None:
    device = session(Role.DEVICE)
    device.rule.weigh(0)
    assert decode(device, *[CERTAIN] * 5, side(2, _=7, a=1)) == []
    assert device.committed == [1] * 5 + [END]
    assert device.finished
    assert device.rule.told == 0


def test_many_certain_tokens_go_up_in_messages_that_the_wire_takes() -> None:
    limits, rule = Limits(frozenset({END}), 400), partial(OneWay, vocabulary=VOCABULARY)
    device, cloud = (Session(role, GREEDY, limits, rule, window=4) for role in Role)
    device.rule.weigh(0)
    sent = decode(device, *[CERTAIN] * 300, side(c=1))
    assert len(sent) > 1
    for message in sent:
        cloud.receive(registry.decode(registry.encode(message, 1), Role.DEVICE, VOCABULARY)[1])
    assert device.committed == cloud.committed == [1] * 300


def test_no_certificate_without_the_cloud_s_weight_or_when_switched_off() -> None:
    unweighed, off = session(Role.DEVICE), session(Role.DEVICE, vocabulary=None)
    off.rule.weigh(0)
    for device in (unweighed, off):
        assert decode(device, side(5, a=1)) == []
        assert device.committed == []


@pytest.mark.parametrize(
    "wrong",
    [
        Correction(0, 2, 0, 0, ()),  # the cloud has no draft there
        Correction(0, 1, 7, 0, (3,)),  # of another text
    ],
)
def test_a_correction_of_another_text_asks_for_a_resync(wrong: Correction) -> None:
    cloud = session(Role.CLOUD)
    decode(cloud, side(a=1))
    cloud.receive(wrong)
    assert cloud.take_outbox() == [Resync(0)]


def test_a_device_s_draft_is_a_fault() -> None:
    cloud = session(Role.CLOUD)
    cloud.receive(Draft(0, 0, 0, 0, 0, 1, 0, side(a=1)))
    assert cloud.take_outbox() == [Resync(0)]


def test_nothing_goes_up_once_the_answer_is_complete() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    for draft in decode(cloud, Side(WireDistribution.of([END], [1]), 0)):
        device.receive(draft)
    assert decode(device, Side(WireDistribution.of([END], [1]), 0)) == []
    assert device.finished


# Certificates.


def sides(seed: int, share: float) -> tuple[Side, Side]:
    """A device that is fairly sure, and a cloud; `share` is about the device's weight."""
    chance = np.random.default_rng(seed)
    log_odds = float(np.log(share / (1.0 - share)))
    found = []
    for log_h in (round(log_odds * LOG_H_STEPS), 0):
        ids = np.sort(chance.choice(VOCABULARY, int(chance.integers(1, 8)), replace=False))
        weights = 1 + (chance.dirichlet(np.full(len(ids), 0.3)) * (SCALE - 8)).astype(np.int64)
        found.append(Side(WireDistribution.of(ids, weights), log_h))
    return found[0], found[1]


def certain(device: Side, log_h: int, token: int, sampling: Sampling, position: int) -> bool:
    """The slow way: no cloud that puts all its mass on one token changes the target.

    Where nothing truncates that is all clouds: the target is the fastest token, and another one is
    fastest where all of the cloud's mass is on it, if anywhere.
    """
    return all(
        mixture.target(device, Side(WireDistribution.of([v], [SCALE]), log_h), sampling, position)
        == token
        for v in range(VOCABULARY)
    )


@settings(max_examples=500)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
    st.sampled_from([1.0, 1.0, 0.9, 0.5]),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.sampled_from([0.0, 0.0, 0.2, 0.6, 1.0]),
    st.sampled_from([0.5, 0.7, 0.9, 0.97]),
)
def test_a_certificate_is_never_wrong(
    seed: int, temperature: float, top_p: float, top_k: int, min_p: float, share: float
) -> None:
    sampling = Sampling(temperature, top_p, seed, top_k=top_k, min_p=min_p)
    device, cloud = sides(seed, share)
    position = seed % 9
    token = mixture.draft(device, sampling, position)
    if certified(device, cloud.log_h, token, sampling, position, VOCABULARY):
        assert certain(device, cloud.log_h, token, sampling, position)
        for other in (cloud, *levelling(device, cloud.log_h, token)):
            assert mixture.target(device, other, sampling, position) == token


def levelling(device: Side, log_h: int, token: int) -> Iterator[Side]:
    """Clouds that lift as many other tokens as they can just above one, to push it out."""
    wire, eta = device.wire, mixture.device_weight(device.log_h, log_h)
    own = float(wire.weights[np.searchsorted(wire.ids, token)]) / wire.total
    lacks = [
        ((own - float(weight) / wire.total) * eta / max(1, mixture.ETA_ONE - eta), int(other))
        for other, weight in zip(wire.ids, wire.weights, strict=True)
        if other != token
    ]
    lacks.sort()
    for count in range(1, len(lacks) + 1):
        weights = {v: 1 + max(0, int(lack * SCALE) + 1) for lack, v in lacks[:count]}
        if (left := SCALE - sum(weights.values())) >= 0:
            weights[lacks[0][1]] += left
            ids = sorted(weights)
            yield Side(WireDistribution.of(ids, [weights[v] for v in ids]), log_h)


@pytest.mark.parametrize("truncation", [{"top_k": 2}, {"top_k": 3}, {"min_p": 0.2}, {"top_p": 0.6}])
def test_truncation_leaves_certificates(truncation: dict[str, float]) -> None:
    found = 0
    for seed in range(200):
        sampling = Sampling(0.5, seed=seed, **truncation)  # type: ignore[arg-type]
        device, cloud = sides(seed, 0.9)
        token = mixture.draft(device, sampling, 0)
        found += certified(device, cloud.log_h, token, sampling, 0, VOCABULARY)
    assert found > 20


@pytest.mark.parametrize("temperature", [0.0, 0.1, 0.5])
def test_certificates_find_most_of_what_is_certain(temperature: float) -> None:
    found = possible = 0
    for seed in range(400):
        sampling = Sampling(temperature=temperature, seed=seed)
        device, cloud = sides(seed, 0.9)
        token = mixture.draft(device, sampling, 0)
        possible += certain(device, cloud.log_h, token, sampling, 0)
        found += certified(device, cloud.log_h, token, sampling, 0, VOCABULARY)
    assert possible > 40
    assert found >= 0.9 * possible


def test_a_cloud_of_equal_weight_is_waited_for_unless_the_device_is_sure() -> None:
    sampling = Sampling(temperature=0.0)
    sure = Side(WireDistribution.of([3], [SCALE]), 1)
    torn = Side(WireDistribution.of([3, 4], [SCALE // 2, SCALE // 2 - 1]), LOG_H_STEPS)
    assert certified(sure, 0, 3, sampling, 0, VOCABULARY)
    assert not certified(sure, 2, 3, sampling, 0, VOCABULARY)
    assert not certified(torn, 0, 3, sampling, 0, VOCABULARY)


# With a budget.

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

    return World(seed, sampling, LIMITS, rule=rule, catch_up=catch_up, window=window)


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
