"""The session by example: each rule of the protocol on its own.

Covers `dragon.protocol.state` and `dragon.protocol.messages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dragon.protocol.messages import (
    MAX_WINDOW,
    Draft,
    Join,
    Limits,
    Resync,
    SessionMessage,
    Target,
    Work,
)
from dragon.protocol.rules.oneway import OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.shared_noise import Coupled, Tokenwise
from dragon.protocol.rules.speculative import Speculative
from dragon.protocol.session import Session
from dragon.protocol.state import MAX_RESYNCS
from dragon.sampling.mixture import LOG_H_LIMIT, Side
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, World, reference, sure, work

GREEDY = Sampling(temperature=0.0)
LIMITS = Limits(frozenset({END}), 20)


def session(role: Role, *, window: int = 4, catch_up: bool = False, **more: Any) -> Session:
    return Session(
        role,
        GREEDY,
        LIMITS,
        Coupled,
        window=window,
        catch_up=catch_up,
        **more,
    )


def say(of: Session, *sides: Side) -> list[Draft]:
    """Run the decoder once for every side and take the drafts."""
    for side in sides:
        work(of)
        of.complete([side])
    return [message for message in of.take_outbox() if isinstance(message, Draft)]


def meet(first: Session, second: Session) -> None:
    """Deliver everything, both ways, until both are silent."""
    while True:
        up, down = first.take_outbox(), second.take_outbox()
        if not up and not down:
            return
        for message in up:
            second.receive(message)
        for message in down:
            first.receive(message)


# Window.


def test_a_side_drafts_a_window_ahead_and_no_further() -> None:
    device = session(Role.DEVICE, window=3)
    drafts = say(device, sure(5), sure(6), sure(7))
    assert [(d.position, d.token, d.committed) for d in drafts] == [(0, 5, 0), (1, 6, 0), (2, 7, 0)]
    assert device.next_work() is None
    assert len(device.queues) == 3


# Commits and epochs.


@pytest.mark.parametrize("rule", [Coupled, OneWay, Tokenwise, Speculative])
def test_a_cloud_that_brings_what_may_not_stand_is_let_go(rule: Callable[[Session], Rule]) -> None:
    device = Session(
        Role.DEVICE, GREEDY, LIMITS, rule, window=4, permits=lambda _, token: token != 7
    )
    cloud = Session(Role.CLOUD, GREEDY, LIMITS, rule, window=4)
    for side, said in ((device, sure(5)), (cloud, sure(7, LOG_H_LIMIT))):
        work(side)
        side.complete([said])
    meet(device, cloud)
    assert (device.committed, device.joint, device.intervals()) == ([], False, ())
    say(device, sure(5), sure(END))
    assert device.committed == [5, END]


def test_an_overfull_queue_is_a_desync() -> None:
    device = session(Role.DEVICE)
    cloud = session(Role.CLOUD, window=MAX_WINDOW)
    cloud.limits = Limits(frozenset(), 1000)
    drafts = say(cloud, *(sure(7) for _ in range(MAX_WINDOW)))
    for draft in drafts:
        device.receive(draft)
    assert len(device.queues) == MAX_WINDOW
    device.receive(replace(drafts[-1], position=MAX_WINDOW))
    assert len(device.queues) == 0
    assert device.take_outbox() == [Join(1, 0, ())]


# Catch-up.


def test_a_side_that_is_behind_catches_up_in_one_forward() -> None:
    cloud = session(Role.CLOUD)
    drafts = say(cloud, sure(5), sure(6), sure(7))
    device = session(Role.DEVICE, catch_up=True)
    for draft in drafts:
        device.receive(draft)
    assert [d.token for d in say(device, sure(5))] == [5]
    assert work(device) == Work(keep=0, tokens=(5, 6, 7), outputs=3, version=0)
    device.complete([sure(6), sure(7), sure(8)])
    assert device.take_commits() == [5, 6, 7]
    assert [d.token for d in device.take_outbox() if isinstance(d, Draft)] == [6, 7, 8]
    assert work(device).tokens == (8,)


def test_the_first_token_waits_for_no_catch_up() -> None:
    device = session(Role.DEVICE, catch_up=True)
    for draft in say(session(Role.CLOUD), sure(5), sure(6), sure(7)):
        device.receive(draft)
    assert work(device) == Work(keep=0, tokens=(), outputs=1, version=0)
    device.complete([sure(5)])
    assert device.take_commits() == [5]


# Ends.


def test_at_the_horizon_the_device_goes_on_alone() -> None:
    limits = Limits(frozenset({END}), 6, horizon=3)
    for seed in range(20):
        sampling = Sampling(seed=seed)
        world = World(seed, sampling, limits, catch_up=bool(seed % 2), likeness=0.9)
        text = world.run()
        intervals = world.device.intervals()
        assert text == reference(sampling, limits, intervals, 0.9)
        assert intervals == ((0, min(3, len(text))),)
        assert world.stalls == 0


# Losing, joining, resyncs.


def test_participation_intervals_tell_who_took_part() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    for side in (device, cloud):
        work(side)
        side.complete([sure(5)])
    meet(device, cloud)
    assert device.intervals() == ((0, 1),)
    device.lose()
    say(device, sure(6))
    cloud = session(Role.CLOUD, committed=[5], joint=False)
    device.join(1)
    assert device.intervals() == ((0, 1),)
    meet(device, cloud)
    for side in (device, cloud):
        work(side)
        side.complete([sure(7)])
    meet(device, cloud)
    assert device.committed == cloud.committed == [5, 6, 7]
    assert device.intervals() == ((0, 1), (2, 3))


def test_a_peer_that_never_agrees_is_given_up() -> None:
    device = session(Role.DEVICE)
    for _ in range(MAX_RESYNCS):
        device.stalled()
        assert device.joint
    device.stalled()
    assert not device.joint
    device.stalled()
    assert device.incarnation == MAX_RESYNCS + 1


@pytest.mark.parametrize("message", [Target(0, 0, 5, True, False, Role.DEVICE), Join(5, 0, ())])
def test_a_message_that_is_not_for_the_device_is_a_desync(message: SessionMessage) -> None:
    device = session(Role.DEVICE)
    device.receive(message)
    assert device.take_outbox() == [Join(1, 0, ())]


@pytest.mark.parametrize(
    "message", [Target(0, 0, 5, True, False, Role.DEVICE), Join(5, 0, ()), Resync(0), Resync(1)]
)
def test_a_device_that_is_alone_does_not_listen(message: SessionMessage) -> None:
    device = session(Role.DEVICE)
    device.lose()
    running = work(device)
    device.receive(message)
    assert device.take_outbox() == []
    assert not device.stale
    device.complete([sure(5)])
    assert device.committed == [5]
    assert running.tokens == ()
