"""The rule of each aggregation mode."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dragon.protocol.aggregator_policy import (
    Aggregated,
    Estimates,
    Schedule,
    Scheduler,
    expected_acceptance,
)
from dragon.protocol.messages import Limits
from dragon.protocol.rules.oneway import Budgeted, OneWay
from dragon.protocol.rules.rule import Rule
from dragon.protocol.rules.sequencewise import Sequencewise
from dragon.protocol.rules.shared_noise import Coupled, Exchange, Tokenwise
from dragon.protocol.rules.speculative import Speculative
from dragon.protocol.session import Permits, Session, anything
from dragon.sampling.mixture import Side
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.privacy import Budget
from dragon.sampling.role import Role

# A device that writes alone, in `local` and the context modes, uses the rule of `coupled`.
_RULES: dict[Mode, Callable[[Session], Rule]] = {
    **dict.fromkeys((mode for mode in Mode if not mode.joint), Coupled),
    Mode.COUPLED: Coupled,
    Mode.TOKENWISE: Tokenwise,
    Mode.EXCHANGE: Exchange,
    Mode.SEQUENCEWISE: Sequencewise,
}


@dataclass(frozen=True)
class Start:
    """The settings of an answer that its two sessions share: all but the role.

    All token ids are below `vocabulary`; None disables certificates, as is needed if relevance is
    re-scored. With a `budget` the device draws within it. `permits` is the device's, as in
    `Session`.
    """

    mode: Mode
    sampling: Sampling
    limits: Limits
    catch_up: bool
    schedule: Schedule = Schedule.GREEDY
    vocabulary: int | None = None
    budget: Budget | None = None
    permits: Permits = anything


def session_of(
    start: Start,
    role: Role,
    estimates: Estimates,
    *,
    joint: bool,
    committed: Sequence[int] = (),
) -> Session:
    """The session of an answer on one side.

    Raises `InvalidRequestError` for sampling parameters that the mode does not support.
    """
    rule: Callable[[Session], Rule]
    match start.mode:
        case Mode.ONEWAY if start.budget is not None:
            rule = partial(Budgeted, budget=start.budget, key=secrets.token_bytes(32))
        case Mode.ONEWAY:
            rule = partial(OneWay, vocabulary=start.vocabulary)
        case Mode.SPECULATIVE:
            rule = _speculative(start, role, estimates)
        case mode:
            rule = _RULES[mode]
    return Session(
        role,
        start.sampling,
        start.limits,
        rule,
        committed=committed,
        joint=joint,
        catch_up=start.catch_up,
        permits=start.permits,
    )


def _speculative(start: Start, role: Role, estimates: Estimates) -> Callable[[Session], Rule]:
    scheduler = Scheduler(start.schedule, start.sampling.seed)

    def next_aggregator(aggregator: Role, device: Side, cloud: Side, last: Aggregated) -> Role:
        estimates.observe_acceptance(*expected_acceptance(device, cloud))
        return scheduler.next(aggregator, estimates.conditions(role), last)

    return partial(Speculative, first=scheduler.first, next_aggregator=next_aggregator)
