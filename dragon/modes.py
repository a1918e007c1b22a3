"""The session of each aggregation mode, and who aggregates in the speculative one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragon.pacing import Estimate, Pace
from dragon.protocol import Limits, Role
from dragon.sampling import Mode, Sampling
from dragon.scheduling import Conditions, Schedule, Scheduler, expected_acceptance
from dragon.sequencewise import SequencewiseSession
from dragon.session import Session
from dragon.speculative import Judged, SpeculativeSession
from dragon.tokenwise import ExchangeSession, TokenwiseSession


@dataclass
class Choice:
    """Chooses the aggregating side from what this side knows of both, and of the link."""

    role: Role
    scheduler: Scheduler
    pace: Pace
    remote_decode: Estimate
    accept_device: Estimate = field(default_factory=Estimate)
    accept_cloud: Estimate = field(default_factory=Estimate)

    def __call__(self, aggregator: Role, judged: Judged) -> Role:
        """Who aggregates next."""
        for estimate, value in zip(
            (self.accept_device, self.accept_cloud),
            expected_acceptance(judged.device, judged.cloud),
            strict=True,
        ):
            estimate.add(value)
        return self.scheduler.next(aggregator, self._conditions(), judged.last)

    def _conditions(self) -> Conditions | None:
        own, remote = self.pace.decode.value, self.remote_decode.value
        rtt = self.pace.round_trip.value
        device, cloud = self.accept_device.value, self.accept_cloud.value
        if own is None or remote is None or rtt is None or device is None or cloud is None:
            return None
        decode = (own, remote) if self.role is Role.DEVICE else (remote, own)
        return Conditions(*decode, rtt, device, cloud)


@dataclass(frozen=True)
class Start:
    """What the two sessions of an answer have in common but their role."""

    mode: Mode
    sampling: Sampling
    limits: Limits
    catch_up: bool
    schedule: Schedule = Schedule.GREEDY


def session_of(
    start: Start,
    role: Role,
    pace: Pace,
    remote_decode: Estimate,
    *,
    joint: bool,
    committed: Sequence[int] = (),
) -> Session:
    """The session of an answer on one side.

    Raises `InvalidRequestError` for sampling parameters that the mode does not take.
    """
    if start.mode is Mode.SPECULATIVE:
        scheduler = Scheduler(start.schedule, start.sampling.seed)
        return SpeculativeSession(
            role,
            start.sampling,
            start.limits,
            committed=list(committed),
            joint=joint,
            first=scheduler.first,
            next_aggregator=Choice(role, scheduler, pace, remote_decode),
        )
    kinds = {
        Mode.TOKENWISE: TokenwiseSession,
        Mode.EXCHANGE: ExchangeSession,
        Mode.SEQUENCEWISE: SequencewiseSession,
    }
    return kinds.get(start.mode, Session)(
        role,
        start.sampling,
        start.limits,
        committed=list(committed),
        joint=joint,
        catch_up=start.catch_up,
    )
