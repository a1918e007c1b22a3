"""Estimates at run time: decode delay, link, window, conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dragon.inference.estimates import (
    READINGS,
    DecodeDelay,
    Estimate,
    LinkMeter,
    Pace,
    draft_window,
)
from dragon.inference.profile import DecodeFit, Profile
from dragon.protocol.aggregator_policy import Conditions
from dragon.protocol.messages import Draft
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role

FIT = DecodeFit.of([100, 200, 300], [0.02, 0.03, 0.04])
PROFILE = Profile(model="m", rows=2, decode=FIT, rtt_s=0.1, sending=1e6)


def test_the_fit_has_the_least_squared_error() -> None:
    chance = np.random.default_rng(1)
    contexts = chance.integers(64, 256, 200).tolist()
    seconds = [1e-5 * t + 0.007 + chance.normal(0, 1e-4) for t in contexts]
    slope, intercept = np.polyfit(contexts, seconds, 1)
    fit = DecodeFit.of(contexts, seconds)
    assert fit.k_a / fit.k_b == pytest.approx(slope)
    assert fit.k_c == pytest.approx(intercept)
    assert fit.at(500) == pytest.approx(500 * slope + intercept)


def test_one_context_fits_a_constant() -> None:
    assert DecodeFit.of([64, 64], [0.01, 0.03]).at(64) == pytest.approx(0.02)


def test_decode_delay_begins_with_the_profile_and_follows_the_machine() -> None:
    delay = DecodeDelay(PROFILE)
    assert delay.value == pytest.approx(0.02)
    for _ in range(60):
        delay.add(2 * FIT.at(300), 300)
    assert delay.value == pytest.approx(0.08)
    delay.add(2 * FIT.at(300), 300)
    # The intercept is frozen: only what grows with the context was scaled.
    assert FIT.k_c == pytest.approx(0.01)
    delay.add(0.01 + 100 * 0.07 / 300, 100)
    assert delay.value == pytest.approx(0.01 + 100 * 0.07 / 300)


def test_without_a_profile_decode_delay_is_a_moving_average() -> None:
    delay, average = DecodeDelay(), Estimate()
    assert delay.value is None
    for seconds in (0.1, 0.2, 0.4):
        delay.add(seconds, 10)
        average.add(seconds)
    assert delay.value == average.value


def test_the_first_observation_replaces_a_guess() -> None:
    estimate = Estimate(guess=5.0)
    assert estimate.value == 5.0
    estimate.add(1.0)
    assert estimate.value == 1.0
    estimate.add(2.0)
    assert estimate.value == pytest.approx(1.2)


def test_pings_give_the_round_trip() -> None:
    meter = LinkMeter()
    for now in (0.0, 1.0):
        number = meter.ping(now)
        assert meter.oldest(now) == now
        meter.pong(number, now + 0.25)
    assert meter.round_trip.value == pytest.approx(0.25)
    meter.pong(number, 9.0)  # a second time
    meter.pong(77, 9.0)  # never asked for
    assert meter.round_trip.value == pytest.approx(0.25)
    assert meter.oldest(5.0) == 5.0


def test_pings_behind_large_frames_give_the_bandwidth() -> None:
    meter = LinkMeter()
    meter.pong(meter.ping(0.0), 0.1)
    assert not meter.wants_ping(300, 1.0)
    assert meter.wants_ping(100_000, 1.0)
    meter.pong(meter.ping(1.0, behind=100_000), 1.2)
    assert meter.bandwidth.value == pytest.approx(1e6)
    assert meter.round_trip.value == pytest.approx(0.1), "that was no round trip"


def test_pings_behind_large_frames_are_one_at_a_time_and_rare() -> None:
    meter = LinkMeter()
    number = meter.ping(1.0, behind=100_000)
    assert not meter.wants_ping(100_000, 5.0), "the last one is under way"
    meter.pong(number, 5.0)
    assert meter.wants_ping(100_000, 5.0)
    meter.pong(meter.ping(5.0, behind=100_000), 5.001)
    assert not meter.wants_ping(100_000, 5.002)
    assert meter.wants_ping(100_000, 5.2)


def test_what_does_not_stand_out_of_the_pings_says_nothing() -> None:
    meter = LinkMeter()
    meter.pong(meter.ping(0.0, behind=100_000), 0.2)
    assert meter.bandwidth.value is None, "no round trip to compare with"
    meter.pong(meter.ping(1.0), 1.1)
    meter.pong(meter.ping(2.0, behind=100_000), 2.11)
    assert meter.bandwidth.value is None


def test_unanswered_pings_do_not_pile_up() -> None:
    meter = LinkMeter()
    for now in range(1000):
        meter.ping(float(now))
    assert meter.oldest(1000.0) > 900


def test_a_new_connection_starts_from_the_profile() -> None:
    meter = LinkMeter(PROFILE)
    assert (meter.round_trip.value, meter.bandwidth.value) == (0.1, 1e6)
    meter.pong(meter.ping(0.0), 0.3)
    assert meter.round_trip.value == pytest.approx(0.3)
    number = meter.ping(1.0)
    another = meter.anew()
    another.pong(number, 9.0)
    assert another.round_trip.value == 0.1


def test_the_window_covers_a_round_trip_and_what_a_slower_side_catches_up_with() -> None:
    assert draft_window(0.3, 0.05) == 7
    assert draft_window(0.3, 0.05, 0.05) == 8
    assert draft_window(0.3, 0.05, 0.02) == 8
    assert draft_window(0.0, 0.03, 0.1) == 6
    assert draft_window(10.0, 0.01) == 64


def draft(position: int, decode_us: int) -> Draft:
    side = Side(WireDistribution.of([1], [1]), 0)
    return Draft(0, 0, position, position, 0, 1, decode_us, side)


def test_a_pace_from_nothing_to_conditions() -> None:
    pace = Pace(LinkMeter(), DecodeDelay())
    assert pace.window() == 8
    assert pace.stall_limit() == 1.0
    assert math.isnan(pace.reading("accept_cloud"))
    assert pace.conditions(Role.DEVICE) is None
    pace.link.pong(pace.link.ping(0.0), 0.3)
    pace.decode.add(0.05, 100)
    assert pace.window() == 7
    pace.observe_remote(draft(0, 10))  # the prefill's distribution, there at once
    assert pace.remote_decode.value is None
    pace.observe_remote(draft(1, 20_000))
    assert pace.window() == 8
    assert pace.stall_limit() == pytest.approx(1.4)
    assert pace.conditions(Role.DEVICE) is None
    pace.accept_device.add(0.9)
    pace.accept_cloud.add(0.4)
    assert pace.conditions(Role.DEVICE) == Conditions(0.05, 0.02, pytest.approx(0.3), 0.9, 0.4)
    assert pace.conditions(Role.CLOUD) == Conditions(0.02, 0.05, pytest.approx(0.3), 0.9, 0.4)


def test_every_reading_can_be_read() -> None:
    pace = Pace(LinkMeter(PROFILE), DecodeDelay(PROFILE))
    readings = {name: pace.reading(name) for name in READINGS}
    assert readings["round_trip_seconds"] == 0.1
    assert readings["decode_seconds"] == pytest.approx(0.02)
    assert readings["draft_window"] == draft_window(0.1, readings["decode_seconds"])


def test_where_others_fill_a_short_wait_nothing_is_drafted_ahead() -> None:
    pace = Pace(LinkMeter(), DecodeDelay())
    pace.link.round_trip.add(0.01)
    pace.decode.add(0.03, 10)
    pace.remote_decode.add(0.03)
    assert pace.window() == 3
    assert pace.window(sharing=2) == 1
    pace.link.round_trip.seen = 0.1  # longer than what others fill
    assert pace.window(sharing=8) == 6
    pace.link.round_trip.seen = 0.01
    pace.remote_decode.seen = 0.1  # the slower side catches up with drafts
    assert pace.window(sharing=8) > 1
