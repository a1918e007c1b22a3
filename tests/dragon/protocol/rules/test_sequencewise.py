"""Sequencewise aggregation: whatever happens on the way, the likelier of two whole answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragon.protocol.messages import (
    Candidate,
    Draft,
    Join,
    Limits,
    Resync,
    Score,
    SessionMessage,
    Work,
)
from dragon.protocol.rules import sequencewise
from dragon.protocol.rules.sequencewise import MAX_STALLS, Sequencewise, log_likelihood
from dragon.protocol.session import Session
from dragon.sampling import mixture
from dragon.sampling.mixture import ETA_MIN, ETA_ONE
from dragon.sampling.params import Sampling
from dragon.sampling.role import Role
from tests.dragon.protocol.toy import END, TRUNCATIONS, World, sure, toy_likelihood, toy_side, work

GREEDY = Sampling(temperature=0.0)
LIMITS = Limits(frozenset({END}), 10)


def alone(role: Role, sampling: Sampling, limits: Limits, likeness: float) -> list[int]:
    """The whole answer one side writes by itself."""
    text: list[int] = []
    while len(text) < limits.tokens and not (text and text[-1] in limits.end_ids):
        side = toy_side(role, tuple(text), likeness)
        text.append(mixture.draft(side, sampling, len(text)))
    return text


def reference(sampling: Sampling, limits: Limits, likeness: float) -> tuple[list[int], bool]:
    """The answer by the definition, one slow step after another, and whether it is a joint one."""
    device = alone(Role.DEVICE, sampling, limits, likeness)
    shorter = replace(limits, tokens=min(limits.tokens, limits.horizon))
    cloud = alone(Role.CLOUD, sampling, shorter, likeness)
    whole = cloud and (cloud[-1] in limits.end_ids or len(cloud) == limits.tokens)
    if len(device) > limits.horizon or not whole:
        return device, False
    sides = [toy_side(role, (), likeness) for role in (Role.DEVICE, Role.CLOUD)]
    eta = mixture.device_weight(*(side.log_h for side in sides)) / ETA_ONE

    def probability(text: list[int]) -> float:
        of_device, of_cloud = (
            math.exp(toy_likelihood(role, text)) for role in (Role.DEVICE, Role.CLOUD)
        )
        return eta * of_device + (1 - eta) * of_cloud

    return max(device, cloud, key=probability), True


def world_of(seed: int, sampling: Sampling, limits: Limits, likeness: float = 0.6) -> World:
    world = World(
        seed,
        sampling,
        limits,
        rule=Sequencewise,
        catch_up=bool(seed % 2),
        window=1 + seed % 8,
        likeness=likeness,
    )
    # A cloud without room for a single token: a driver learns it from `ready`.
    world.device.set_horizon(limits.horizon)
    return world


def check(world: World, sampling: Sampling, limits: Limits, likeness: float) -> None:
    """The device has taken the reference's answer, or its own if it was left alone."""
    answer, intervals = world.answer, world.device.intervals()
    assert answer == world.device.committed, "what was said is never taken back"
    if intervals:
        assert intervals == ((0, len(answer)),)
        assert (answer, True) == reference(sampling, limits, likeness)
    else:
        assert answer == alone(Role.DEVICE, sampling, limits, likeness)


samplings = st.builds(
    lambda temperature, seed, truncation: Sampling(temperature, seed=seed, **truncation),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.integers(0, 15),
    st.sampled_from(TRUNCATIONS),
)
likenesses = st.sampled_from([0.0, 0.6, 0.95, 1.0])
limits_with_any_horizon = st.builds(
    Limits,
    st.just(frozenset({END})),
    st.integers(1, 12),
    st.just(1 << 30) | st.integers(0, 12),
)


# Against the reference.


@settings(max_examples=150)
@given(st.integers(0, 1 << 32), samplings, limits_with_any_horizon, likenesses)
def test_any_interleaving_gives_the_answer_of_the_reference(
    seed: int, sampling: Sampling, limits: Limits, likeness: float
) -> None:
    world = world_of(seed, sampling, limits, likeness)
    answer = world.run()
    assert (answer, bool(world.device.intervals())) == reference(sampling, limits, likeness)
    check(world, sampling, limits, likeness)
    assert world.stalls == 0


def test_both_sides_answers_are_taken_at_times() -> None:
    chosen = set()
    for seed in range(40):
        sampling = Sampling(seed=seed)
        answer = world_of(seed, sampling, LIMITS, 0.3).run()
        chosen.add(answer == alone(Role.DEVICE, sampling, LIMITS, 0.3))
    assert chosen == {True, False}


@pytest.mark.parametrize("size", [1, 3, 5])
def test_scoring_in_pieces_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencewise, "MAX_SCORED", size)
    for seed in range(30):
        sampling = Sampling(seed=seed)
        world = world_of(seed, sampling, LIMITS)
        world.run()
        check(world, sampling, LIMITS, 0.6)
        assert world.device.intervals()


def test_three_messages_and_no_more() -> None:
    for seed in range(20):
        world = world_of(seed, Sampling(seed=seed), LIMITS)
        world.run()
        world.drain()
        to_cloud = [type(m) for role, m in world.delivered if role is Role.CLOUD]
        to_device = [type(m) for role, m in world.delivered if role is Role.DEVICE]
        assert to_cloud == [Candidate]
        assert to_device in ([Candidate], [Candidate, Score])


# Faults.


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("back", [False, True])
def test_the_cloud_is_lost_at_every_event(number: int, back: bool) -> None:
    sampling = Sampling(temperature=float(number % 2), seed=number)
    events = 0
    while True:
        world = world_of(number, sampling, LIMITS)
        for _ in range(events):
            world.step()
        if world.device.finished:
            return
        world.cut(events % 3)
        if back:
            world.reopen()
            world.step()
            world.join()
        world.run()
        check(world, sampling, LIMITS, 0.6)
        assert world.stalls == 0
        events += 1


def corrupted(message: SessionMessage, how: int) -> SessionMessage:
    """A message that says something false."""
    match message:
        case Candidate(tokens=tokens):
            changes: list[dict[str, object]] = [
                {"tokens": (3, *tokens[1:])},
                {"tokens": tokens[:-1]},
                {"tokens": (*tokens, 3)},
                {"tokens": ()},
                {"tokens": tokens * 20},
                {"log_likelihood": -1e300},
                {"log_h": -message.log_h},
                {"incarnation": message.incarnation + 1},
            ]
            return replace(message, **changes[how % len(changes)])  # type: ignore[arg-type]
        case Score():
            messages: list[SessionMessage] = [
                replace(message, log_likelihood=-1e300),
                replace(message, incarnation=message.incarnation + 1),
                Resync(message.incarnation),
            ]
            return messages[how % len(messages)]
    return message


@settings(max_examples=400)
@given(
    st.integers(0, 1 << 32),
    samplings,
    limits_with_any_horizon,
    likenesses,
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(["cut", "drop", "twice", "stall", "replay", "freeze", "corrupt"]),
            st.integers(0, 60),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_any_faults(
    seed: int,
    sampling: Sampling,
    limits: Limits,
    likeness: float,
    faults: list[tuple[int, str, int]],
) -> None:
    world = world_of(seed, sampling, limits, likeness)
    old: list[tuple[Role, SessionMessage]] = []
    struck = set()
    for now in range(2000):
        # A fault that needs a message waits for one.
        waiting = []
        for at, kind, size in faults:
            channel = world.channels[(Role.DEVICE, Role.CLOUD)[size % 2]]
            if at > now or (kind in ("drop", "twice", "corrupt") and not channel):
                waiting.append((at, kind, size))
                continue
            struck.add(kind)
            match kind:
                case "cut":
                    flying = ((r, m) for r, queue in world.channels.items() for m in queue)
                    old = [*world.delivered, *flying]
                    world.cut(size % 3)
                    if size % 4:
                        world.reopen()
                        world.step()
                        world.join()
                case "replay" if old:
                    role, message = old[size % len(old)]
                    world.channels[role].appendleft(message)
                case "stall":
                    world.device.stalled()
                case "freeze":
                    world.frozen = {Role.CLOUD} if size % 3 else set()
                case "drop":
                    channel.popleft()
                case "twice":
                    channel.append(channel[0])
                case "corrupt":
                    channel[0] = corrupted(channel[0], size)
        faults = waiting
        world.collect()
        if world.device.finished:
            break
        world.step()
    answer = world.answer
    assert world.device.finished, "the answer never ends"
    assert len(answer) == limits.tokens or answer[-1] == END
    assert END not in answer[:-1]
    if "corrupt" not in struck:
        check(world, sampling, limits, likeness)


# By example.


def session(role: Role = Role.DEVICE, limits: Limits = LIMITS, *, joint: bool = True) -> Session:
    return Session(role, GREEDY, limits, Sequencewise, joint=joint)


def write(of: Session, tokens: Sequence[int], likelihood: float = -3.0) -> None:
    """Let a side write an answer, and score its last token."""
    for token in tokens:
        assert work(of).outputs == 1
        of.complete([sure(token)])
    assert work(of).scored == (tokens[-1],)
    of.complete([], 0, likelihood)


def test_the_others_candidate_is_scored_in_one_forward_once_the_own_is_whole() -> None:
    cloud = session(Role.CLOUD)
    cloud.receive(Candidate(0, (7, 8, END), -1.0, 0))
    write(cloud, (5, END))
    assert work(cloud) == Work(0, (7, 8), 0, 0, (7, 8, END))
    cloud.complete(None)
    assert work(cloud) == Work(0, (7, 8), 0, 0, (7, 8, END)), "abandoned work is done again"
    cloud.complete([], 0, -9.0)
    assert cloud.take_outbox() == [Candidate(0, (5, END), -3.0, 0), Score(0, -9.0)]
    assert cloud.next_work() is None


def test_an_answer_that_wins_whatever_the_cloud_says_is_not_waited_for() -> None:
    device = session()
    write(device, (5, END), -1.0)
    device.receive(Candidate(0, (7, END), -2.0, 0))
    work(device)
    device.complete([], 0, -2.0)
    assert device.take_commits() == [5, END]


def test_two_equal_answers_need_no_score() -> None:
    device = session()
    write(device, (5, END))
    device.receive(Candidate(0, (5, END), -1.0, 0))
    assert device.take_commits() == [5, END]
    assert device.intervals() == ((0, 2),)


@pytest.mark.parametrize(
    "tokens", [(), (7,), (7, 8), (7, END, END), (7,) * 11, (7,) * 10 + (END,)], ids=len
)
def test_a_candidate_that_is_no_whole_answer_leaves_the_device_alone(
    tokens: tuple[int, ...],
) -> None:
    device = session()
    device.receive(Candidate(0, tokens, -1.0, 0))
    assert device.joint, "how long an answer may be is known once the device has begun"
    write_last(device)
    assert (device.joint, device.intervals()) == (False, ())
    assert device.take_commits() == [5, END]


def write_last(device: Session) -> None:
    for token in (5, END):
        work(device)
        device.complete([sure(token)])


def test_a_device_that_is_alone_says_what_it_has_and_goes_on() -> None:
    device = session()
    work(device)
    device.complete([sure(5)])
    assert device.take_commits() == []
    device.lose()
    assert device.take_commits() == [5]
    work(device)
    device.complete([sure(6)])
    assert device.take_commits() == [6]
    device.join(0)
    assert not device.joint, "a token has been said that the cloud had no part in"


def test_a_late_cloud_keeps_what_it_has_written() -> None:
    device, cloud = session(joint=False), session(Role.CLOUD)
    write(cloud, (7, END))
    (early,) = cloud.take_outbox()
    device.join(0)
    (join,) = device.take_outbox()
    device.receive(early)
    cloud.receive(join)
    assert cloud.next_work() is None
    (again,) = cloud.take_outbox()
    assert (join, again) == (Join(1, 0, ()), replace(early, incarnation=1))
    device.receive(again)
    write_last(device)
    device.lose()
    assert device.take_commits() == [5, END]


def test_the_first_candidate_and_the_first_score_stand() -> None:
    device = session()
    write(device, (5, END))
    for message in (
        Candidate(0, (7, END), -1.0, 0),
        Candidate(0, (8, END), 0.0, 0),
        Candidate(1, (9, END), 0.0, 0),
        Score(1, 0.0),
        Score(0, -9.0),
        Score(0, 0.0),
        Resync(0),
        Draft(0, 0, 0, 0, 0, 7, 0, sure(7)),
    ):
        device.receive(message)
    assert work(device).scored == (7, END)
    device.complete([], 0, -1.0)
    assert device.take_commits() == [7, END]
    device.receive(Score(0, 0.0))
    assert (device.take_commits(), device.take_outbox()[1:]) == ([], [])


def test_an_answer_that_may_not_stand_is_not_taken() -> None:
    """However likely it is: the cloud that offers it is let go."""
    taken = 0
    for seed in range(40):
        sampling = Sampling(seed=seed)
        own = alone(Role.DEVICE, sampling, LIMITS, 0.3)
        world = world_of(seed, sampling, LIMITS, 0.3)
        if reference(sampling, LIMITS, 0.3)[0] == own:
            continue
        taken += 1
        world.device.permits = lambda text, token, own=own: [*text, token] == own[: len(text) + 1]
        assert world.run() == own
        assert world.device.intervals() == ()
    assert taken > 3


def test_a_slow_cloud_is_waited_for_but_not_for_ever() -> None:
    device = session()
    device.stalled()
    assert device.resyncs == 0, "the device itself is not done"
    write(device, (5, END))
    for count in range(MAX_STALLS):
        assert device.resyncs == count
        device.stalled()
        assert device.joint
    device.stalled()
    assert device.take_commits() == [5, END]
    assert device.intervals() == ()


def test_the_likelihood_of_a_mixture() -> None:
    for eta in (ETA_MIN, 30_000, ETA_ONE):
        share = eta / ETA_ONE
        expected = math.log(share * math.exp(-2.0) + (1 - share) * math.exp(-3.0))
        assert log_likelihood(eta, -2.0, -3.0) == pytest.approx(expected)
    assert log_likelihood(ETA_ONE // 2, -1000.0, -math.inf) == pytest.approx(-1000 - math.log(2))
    assert log_likelihood(ETA_ONE, -1000.0, 0.0) == -1000.0
