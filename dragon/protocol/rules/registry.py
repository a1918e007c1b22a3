"""The session of each aggregation mode, and who aggregates in the speculative one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dragon.inference.estimates import Pace
from dragon.protocol.aggregator_policy import Schedule, Scheduler, expected_acceptance
from dragon.protocol.messages import Limits, Role
from dragon.protocol.rules.sequencewise import SequencewiseSession
from dragon.protocol.rules.speculative import Judged, SpeculativeSession
from dragon.protocol.rules.tokenwise import ExchangeSession, TokenwiseSession
from dragon.protocol.session import Session
from dragon.sampling.params import Mode, Sampling


@dataclass
class Choice:
    """Chooses the aggregating side from what this side knows of both, and of the link."""

    role: Role
    scheduler: Scheduler
    pace: Pace

    def __call__(self, aggregator: Role, judged: Judged) -> Role:
        """Who aggregates next."""
        device, cloud = expected_acceptance(judged.device, judged.cloud)
        self.pace.accept_device.add(device)
        self.pace.accept_cloud.add(cloud)
        return self.scheduler.next(aggregator, self.pace.conditions(self.role), judged.last)


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
    *,
    joint: bool,
    committed: Sequence[int] = (),
) -> Session:
    """The session of an answer on one side.

    Raises `InvalidRequestError` for sampling parameters that the mode does not take.
    """
    scheduler = Scheduler(start.schedule, start.sampling.seed)
    kinds: dict[Mode, Callable[..., Session]] = {
        Mode.TOKENWISE: TokenwiseSession,
        Mode.EXCHANGE: ExchangeSession,
        Mode.SEQUENCEWISE: SequencewiseSession,
        Mode.SPECULATIVE: partial(
            SpeculativeSession,
            first=scheduler.first,
            next_aggregator=Choice(role, scheduler, pace),
        ),
    }
    return kinds.get(start.mode, Session)(
        role,
        start.sampling,
        start.limits,
        committed=list(committed),
        joint=joint,
        catch_up=start.catch_up,
    )
