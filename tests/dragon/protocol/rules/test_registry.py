"""Which rule a mode gets, and how the speculative one chooses its aggregator.

Covers `dragon.protocol.rules.rule`.
"""

from __future__ import annotations

import pytest

from dragon.inference.estimates import DecodeDelay, Estimate, LinkMeter, Pace
from dragon.protocol.aggregator_policy import Aggregated, Schedule
from dragon.protocol.messages import Limits
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.sequencewise import Sequencewise
from dragon.protocol.rules.shared_noise import Coupled, Exchange, Tokenwise
from dragon.protocol.rules.speculative import Speculative
from dragon.protocol.session import Session
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role

SIDE = Side(WireDistribution.of([1, 2], [60000, 5000]), 0)


def make(
    mode: Mode, role: Role = Role.DEVICE, schedule: Schedule = Schedule.PAPER, **known: float
) -> Session:
    """A session on a side that has measured `own`, `remote` and `rtt` seconds."""
    pace = Pace(LinkMeter(), DecodeDelay(), Estimate(known.get("remote")))
    if "rtt" in known:
        pace.link.round_trip.add(known["rtt"])
    if "own" in known:
        pace.decode.add(known["own"], 100)
    start = Start(mode, Sampling(), Limits(frozenset(), 10), True, schedule)
    return session_of(start, role, pace, joint=True)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (Mode.COUPLED, Coupled),
        (Mode.LOCAL, Coupled),
        (Mode.CONTEXT, Coupled),
        (Mode.EXCHANGE, Exchange),
        (Mode.TOKENWISE, Tokenwise),
        (Mode.SPECULATIVE, Speculative),
        (Mode.SEQUENCEWISE, Sequencewise),
    ],
)
def test_each_mode_has_its_rule(mode: Mode, kind: type[Rule]) -> None:
    assert type(make(mode).rule) is kind


def chosen(role: Role, schedule: Schedule, **known: float) -> Role:
    rule = make(Mode.SPECULATIVE, role, schedule, **known).rule
    assert isinstance(rule, Speculative)
    return rule.next_aggregator(Role.DEVICE, SIDE, SIDE, Aggregated(True, True, 1, 1))


@pytest.mark.parametrize("role", Role)
def test_the_slower_side_aggregates_whoever_computes_it(role: Role) -> None:
    """Eq. 8: a side that is slower by more than a round trip is the bottleneck."""
    own, remote = (0.2, 0.02) if role is Role.DEVICE else (0.02, 0.2)
    assert chosen(role, Schedule.PAPER, own=own, remote=remote, rtt=0.05) is Role.DEVICE
    assert chosen(role, Schedule.PAPER, own=remote, remote=own, rtt=0.05) is Role.CLOUD


@pytest.mark.parametrize("missing", ["own", "remote", "rtt"])
def test_nobody_hands_over_before_the_delays_are_known(missing: str) -> None:
    known = {"own": 0.02, "remote": 0.2, "rtt": 0.05}
    assert chosen(Role.DEVICE, Schedule.PAPER, **known) is Role.CLOUD
    del known[missing]
    assert chosen(Role.DEVICE, Schedule.PAPER, **known) is Role.DEVICE
