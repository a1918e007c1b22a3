"""One-way aggregation: the text of the references, and nothing but words of it goes up."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.link import registry
from dragon.protocol.messages import Correction, Draft, Limits, Resync
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.session import Session
from dragon.sampling.mixture import LOG_H_STEPS, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, VOCABULARY, World, reference

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
        random.Random(seed),
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
