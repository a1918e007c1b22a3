"""The session by example: each rule of the protocol on its own.

Covers `dragon.protocol.state` and `dragon.protocol.messages`.
"""

from __future__ import annotations

import random
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
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, World, reference

GREEDY = Sampling(temperature=0.0)
LIMITS = Limits(frozenset({END}), 20)


def sure(token: int, log_h: int = 0) -> Side:
    """A side that knows what comes."""
    return Side(WireDistribution.of([token], [1 << 16]), log_h)


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


def work(of: Session) -> Work:
    wanted = of.next_work()
    assert wanted is not None
    return wanted


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


def test_the_first_work_is_the_distribution_after_the_prompt() -> None:
    device = session(Role.DEVICE)
    assert work(device) == Work(keep=0, tokens=(), outputs=1, version=0)
    assert device.next_work() is None, "one work at a time"


def test_a_side_drafts_a_window_ahead_and_no_further() -> None:
    device = session(Role.DEVICE, window=3)
    drafts = say(device, sure(5), sure(6), sure(7))
    assert [(d.position, d.token, d.committed) for d in drafts] == [(0, 5, 0), (1, 6, 0), (2, 7, 0)]
    assert device.next_work() is None
    assert len(device.queues) == 3


def test_the_window_is_capped() -> None:
    device = session(Role.DEVICE, window=1000)
    device.limits = Limits(frozenset(), 1000)
    say(device, *(sure(1) for _ in range(MAX_WINDOW)))
    assert device.next_work() is None


def test_own_tokens_are_fed_one_by_one() -> None:
    device = session(Role.DEVICE)
    say(device, sure(5))
    assert work(device).tokens == (5,)
    device.complete([sure(6)])
    assert (work(device).keep, device.stale) == (1, False)


def test_nothing_is_drafted_past_an_own_end_token() -> None:
    device = session(Role.DEVICE)
    say(device, sure(5), sure(END))
    assert device.next_work() is None


def test_nothing_is_drafted_past_the_limit() -> None:
    device = session(Role.DEVICE, window=64)
    device.limits = replace(LIMITS, tokens=2)
    say(device, sure(5), sure(6))
    assert device.next_work() is None


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


def test_two_equal_drafts_are_committed_on_both_sides() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    for side in (device, cloud):
        work(side)
        side.complete([sure(5)])
    meet(device, cloud)
    assert device.committed == cloud.committed == [5]
    assert device.take_commits() == [5]
    assert device.take_commits() == []
    assert device.agreement.verdicts == [(True, True)]


def test_the_heavier_side_wins_and_the_other_rolls_back() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    work(cloud)
    cloud.complete([sure(7)])
    work(cloud)
    cloud.complete([sure(8)])
    running = work(cloud)
    work(device)
    device.complete([sure(5, log_h=4000)])
    meet(device, cloud)
    assert device.committed == cloud.committed == [5]
    # The step under way feeds 8, which is no longer the text.
    assert running.tokens == (8,)
    assert cloud.stale
    cloud.complete([sure(9)])
    assert cloud.take_outbox() == []
    assert work(cloud) == replace(work_after(cloud), keep=0, tokens=(5,), outputs=1)
    # The next draft says so by its epoch; the device dropped what was of the old one.
    cloud.complete([sure(6)])
    (draft,) = cloud.take_outbox()
    assert isinstance(draft, Draft)
    assert (draft.epoch, draft.position, draft.committed) == (1, 1, 1)
    assert len(device.queues) == 0


def work_after(of: Session) -> Work:
    assert of._work is not None
    return of._work


def test_a_frame_of_an_old_epoch_is_dropped() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    first, second = say(cloud, sure(7), sure(8))
    say(device, sure(5, log_h=4000))
    device.receive(first)
    assert device.committed == [5]
    device.receive(second)
    assert (len(device.queues), device.incarnation) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [{"epoch": 1}, {"position": 1}, {"position": 5}, {"checksum": 1}],
    ids=["future epoch", "gap", "far gap", "other prefix"],
)
def test_what_cannot_follow_is_a_desync(change: dict[str, Any]) -> None:
    cloud = session(Role.CLOUD)
    (draft,) = say(cloud, sure(7))
    device = session(Role.DEVICE)
    device.receive(replace(draft, **change))
    (join,) = device.take_outbox()
    assert join == Join(incarnation=1, base=0, tail=())


def test_a_repeated_frame_is_a_desync() -> None:
    (draft,) = say(session(Role.CLOUD), sure(7))
    device = session(Role.DEVICE)
    device.receive(draft)
    device.receive(draft)
    assert device.take_outbox() == [Join(1, 0, ())]


def test_the_checksum_counts_before_the_epoch() -> None:
    (draft,) = say(session(Role.CLOUD), sure(7))
    device = session(Role.DEVICE)
    work(device)
    device.complete([sure(5, log_h=4000)])
    device.take_outbox()
    device.receive(draft)  # judged, rejected: the cloud's epoch is 1 now
    device.receive(replace(draft, checksum=1))
    assert device.take_outbox() == [Join(1, 0, (5,))]


def test_another_incarnation_is_dropped_unread() -> None:
    (draft,) = say(session(Role.CLOUD), sure(7))
    device = session(Role.DEVICE)
    device.receive(replace(draft, incarnation=9, checksum=77))
    device.receive(Resync(9))
    assert (len(device.queues), device.take_outbox()) == (0, [])


def test_a_frame_of_a_longer_text_is_a_desync() -> None:
    (draft,) = say(session(Role.CLOUD), sure(7))
    device = session(Role.DEVICE)
    device.receive(replace(draft, committed=3, position=3))
    assert len(device.queues) == 0
    assert device.take_outbox() == [Join(1, 0, ())]


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


def test_catch_up_stops_at_the_first_mismatch() -> None:
    drafts = say(session(Role.CLOUD), sure(5), sure(6), sure(7))
    device = session(Role.DEVICE, catch_up=True)
    for draft in drafts:
        device.receive(draft)
    say(device, sure(5))
    work(device)
    device.complete([sure(9, log_h=4000), sure(7), sure(8)])
    assert device.committed == [5, 9]
    assert [d.token for d in device.take_outbox() if isinstance(d, Draft)] == [9]
    # 5 was fed and stays, 6 goes, 9 comes.
    assert work(device) == Work(keep=1, tokens=(9,), outputs=1, version=device._version)


def test_catch_up_runs_no_end_token_and_nothing_past_the_limit() -> None:
    drafts = say(session(Role.CLOUD), sure(5), sure(6), sure(END))
    device = session(Role.DEVICE, catch_up=True)
    for draft in drafts:
        device.receive(draft)
    say(device, sure(5))
    assert work(device).tokens == (5, 6)
    short = session(Role.DEVICE, catch_up=True)
    short.limits = replace(LIMITS, tokens=2)
    for draft in drafts:
        short.receive(draft)
    say(short, sure(5))
    assert work(short) == Work(keep=0, tokens=(5,), outputs=1, version=0)


def test_abandoned_work_is_done_again() -> None:
    device = session(Role.DEVICE)
    say(device, sure(5))
    first = work(device)
    device.complete(None)
    assert work(device) == first


def test_an_abandoned_prefill_left_nothing_behind() -> None:
    cloud = session(Role.CLOUD, committed=[5, 6, 7])
    assert work(cloud).tokens == (5, 6, 7)
    cloud.complete(None)
    again = work(cloud)
    assert (again.keep, again.tokens) == (0, (5, 6, 7))


# Ends.


def test_the_end_token_ends_both_sides() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    for side in (device, cloud):
        for token in (5, END):
            work(side)
            side.complete([sure(token)])
    meet(device, cloud)
    assert device.committed == cloud.committed == [5, END]
    assert device.finished
    assert cloud.finished
    assert device.next_work() is None
    device.stalled()
    assert device.take_outbox() == []


def test_at_the_horizon_the_device_goes_on_alone() -> None:
    limits = Limits(frozenset({END}), 6, horizon=3)
    for seed in range(20):
        sampling = Sampling(seed=seed)
        world = World(random.Random(seed), sampling, limits, catch_up=bool(seed % 2), likeness=0.9)
        text = world.run()
        intervals = world.device.intervals()
        assert text == reference(sampling, limits, intervals, 0.9)
        assert intervals == ((0, min(3, len(text))),)
        assert world.stalls == 0


def test_a_cloud_without_any_room_is_let_go() -> None:
    device = session(Role.DEVICE)
    say(device, sure(5), sure(6))
    device.set_horizon(0)
    assert not device.joint
    assert device.committed == [5, 6]
    assert device.intervals() == ()


# Losing, joining, resyncs.


def test_drafts_in_hand_count_when_the_cloud_is_lost() -> None:
    device = session(Role.DEVICE)
    say(device, sure(5), sure(6))
    device.lose()
    assert device.committed == [5, 6]
    assert device.intervals() == ()
    say(device, sure(7))
    assert device.committed == [5, 6, 7]
    device.lose()
    assert device.incarnation == 1


def test_a_join_carries_what_the_new_cloud_does_not_know() -> None:
    device = session(Role.DEVICE)
    device.lose()
    say(device, sure(5), sure(6))
    cloud = session(Role.CLOUD, committed=[5], joint=False)
    assert cloud.next_work() is None, "a cloud that is not joint drafts nothing"
    device.join(1)
    assert device.take_outbox() == [Join(incarnation=2, base=1, tail=(6,))]
    assert device.next_work() is not None
    cloud.receive(Join(2, 1, (6,)))
    assert cloud.committed == [5, 6]
    assert work(cloud).tokens == (5, 6)


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


def test_a_finished_answer_is_not_joined() -> None:
    device = session(Role.DEVICE, joint=False)
    say(device, sure(END))
    device.join(0)
    assert (device.joint, device.take_outbox()) == (False, [])


def test_an_old_join_is_ignored() -> None:
    cloud = session(Role.CLOUD)
    cloud.receive(Join(2, 0, (5, 6)))
    cloud.receive(Join(2, 0, (9,)))
    cloud.receive(Join(1, 0, ()))
    assert (cloud.committed, cloud.incarnation) == ([5, 6], 2)


def test_a_join_on_a_text_the_cloud_does_not_have_is_asked_for_again() -> None:
    cloud = session(Role.CLOUD, joint=False)
    cloud.receive(Join(2, 4, (5,)))
    assert cloud.take_outbox() == [Resync(2)]


def test_on_a_desync_the_cloud_asks_and_the_device_decides() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD, committed=[9])
    (draft,) = say(device, sure(5))
    cloud.receive(replace(draft, position=7))
    asked = cloud.take_outbox()
    assert asked == [Resync(0)]
    cloud.receive(draft)
    assert cloud.next_work() is None, "until the device answers"
    device.receive(asked[0])
    device.receive(asked[0])
    (answer,) = device.take_outbox()
    assert answer == Join(1, 0, ())
    cloud.receive(answer)
    assert (cloud.committed, cloud.joint, cloud.incarnation) == ([], True, 1)


def test_a_cloud_that_ended_by_mistake_is_brought_back() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    say(cloud, sure(END))
    (draft,) = say(device, sure(5))
    cloud.receive(replace(draft, token=END, side=sure(END)))
    assert cloud.finished
    device.stalled()
    meet(device, cloud)
    assert (cloud.finished, cloud.committed) == (False, [])
    for side in (device, cloud):
        work(side)
        side.complete([sure(5)])
    meet(device, cloud)
    assert device.committed == cloud.committed == [5]


def test_a_work_in_flight_survives_no_resync_but_the_decoder_keeps_what_is_true() -> None:
    cloud = session(Role.CLOUD)
    say(cloud, sure(5), sure(6))
    assert work(cloud).tokens == (6,)
    cloud.receive(Join(1, 0, (5, 9)))
    assert cloud.stale
    cloud.complete([sure(7)])
    assert cloud.take_outbox() == []
    assert work(cloud) == Work(keep=1, tokens=(9,), outputs=1, version=cloud._version)


def test_a_longer_text_is_fed_from_where_it_differs() -> None:
    cloud = session(Role.CLOUD)
    say(cloud, sure(5), sure(6), sure(7))
    work(cloud)
    cloud.complete([sure(8)])
    cloud.receive(Join(1, 0, (5, 9, 7, 3, 4)))
    wanted = work(cloud)
    assert (wanted.keep, wanted.tokens, wanted.outputs) == (1, (9, 7, 3, 4), 1)


def test_a_resync_counts_rejections_anew() -> None:
    device, cloud = session(Role.DEVICE), session(Role.CLOUD)
    say_both = [(device, sure(5, log_h=4000)), (cloud, sure(7))]
    for of, side in say_both:
        work(of)
        of.complete([side])
    meet(device, cloud)
    device.stalled()
    meet(device, cloud)
    for of in (device, cloud):
        (draft,) = say(of, sure(6))
        assert (draft.epoch, draft.incarnation, draft.committed) == (0, 1, 1)


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


def test_the_last_frames_before_the_horizon_are_sent() -> None:
    """The cloud is to have all the text it took part in, however the device computed it."""
    limits = Limits(frozenset({END}), 6, horizon=3)
    device = Session(Role.DEVICE, GREEDY, limits, Coupled, window=4, catch_up=True)
    cloud = Session(Role.CLOUD, GREEDY, limits, Coupled, window=4)
    for draft in say(cloud, sure(5), sure(6), sure(7)):
        device.receive(draft)
    work(device)
    device.complete([sure(5)])
    work(device)
    device.complete([sure(6), sure(7)])
    assert device.committed == [5, 6, 7]
    assert not device.joint
    meet(device, cloud)
    assert cloud.committed == [5, 6, 7]
