"""Speculative aggregation: DRAGON, arXiv 2504.11197, Algorithm 1 with its scheduler.

Both sides draft ahead, independently of each other, and send their drafts. One side at a time
aggregates: it computes the target of Algorithm 1 and sends it with its verdicts on both drafts and
the name of the side that aggregates next. Once it has named the other side it aggregates nothing
more, so at most one side aggregates at any time; the target message in flight is the hand-over.

The algorithm's randomness is the counter-based noise, in lanes separate from the one that `coupled`
shares: one for each side's drafts and one for everything the aggregating side draws. The token is
therefore a function of the seed and the two distributions, whichever side aggregates.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from dragon.errors import InvalidRequestError
from dragon.protocol.aggregator_policy import Aggregated
from dragon.protocol.messages import Draft, SessionMessage, Target
from dragon.protocol.rules.rule import Rule
from dragon.sampling import mixture, noise
from dragon.sampling.mixture import ETA_ONE, Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import WireDistribution
from dragon.sampling.role import Role, by_role

if TYPE_CHECKING:
    from dragon.protocol.session import Session


NextAggregator = Callable[[Role, Side, Side, Aggregated], Role]
"""Chooses who aggregates after the side that just did, by both distributions and what happened."""


class Speculative(Rule):
    """Algorithm 1 on one side; `first` aggregates when an answer begins, or resumes after a fault.

    A draft is a draw from its side's distribution and nothing else, so there is no catch-up. Raises
    `InvalidRequestError` for a temperature or a truncation that Algorithm 1 is not defined for.
    """

    def __init__(
        self,
        session: Session,
        first: Role = Role.DEVICE,
        next_aggregator: NextAggregator = lambda aggregator, *_: aggregator,
    ) -> None:
        super().__init__(session)
        sampling = session.sampling
        if sampling.truncates or sampling.temperature not in (0.0, 1.0):
            at_fault = {"top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0.0}
            at_fault["top_p"] = sampling.top_p < 1.0
            raise InvalidRequestError(
                "speculative aggregation needs a temperature of 0 or 1 and takes no top_p, top_k "
                "or min_p; coupled takes any",
                param=next((name for name, given in at_fault.items() if given), "temperature"),
            )
        self.first = first
        self.aggregator = first
        self.next_aggregator = next_aggregator

    def propose(self, position: int, side: Side) -> int:
        """x^s_t drawn from p^s."""
        return algorithm1_draft(self.session.role, side, self.session.sampling, position)

    def step(self) -> bool:
        """Aggregate the first position, if it is this side's turn, and send the target."""
        session = self.session
        if self.aggregator is not session.role or (heads := session.queues.pop_heads()) is None:
            return False
        device, cloud = by_role(session.role, *heads)
        token = self._target(device, cloud)
        kept = (device.token == token, cloud.token == token)
        queues = by_role(session.role, session.queues.own, session.queues.remote)
        queued = [len(queue) if good else 0 for queue, good in zip(queues, kept, strict=True)]
        last = Aggregated(*kept, *queued)
        self.aggregator = self.next_aggregator(self.aggregator, device.side, cloud.side, last)
        position = device.position
        session.send(Target(session.incarnation, position, token, *kept, self.aggregator))
        self._settle(heads, token, session.role)
        return True

    def receive(self, message: SessionMessage) -> None:
        if isinstance(message, Target):
            self._receive_target(message)
        elif isinstance(message, Draft) and _probability(message.side.wire, message.token) == 0.0:
            self.session.desync()  # its side cannot have drawn this token
        else:
            super().receive(message)

    def restart(self) -> None:
        super().restart()
        self.aggregator = self.first

    def _receive_target(self, target: Target) -> None:
        session = self.session
        own_turn = self.aggregator is session.role
        if own_turn or target.position != len(session.committed):
            session.desync()
            return
        heads = session.queues.pop_heads()
        if heads is None:
            session.desync()
            return
        drafts = by_role(session.role, *heads)
        kept = [draft.token == target.token for draft in drafts]
        # Both drafts are here, too: verify the target instead of trusting it.
        if kept != [target.device_kept, target.cloud_kept] or self._target(*drafts) != target.token:
            session.desync()
            return
        self.aggregator = target.next
        self._settle(heads, target.token, session.role.other)
        session.advance()

    def _target(self, device: Draft, cloud: Draft) -> int:
        drafts, sampling = (device.token, cloud.token), self.session.sampling
        return algorithm1_target(drafts, device.side, cloud.side, sampling, device.position)

    def _settle(self, heads: tuple[Draft, Draft], token: int, aggregator: Role) -> None:
        if self.session.role is Role.DEVICE:
            device, cloud = heads
            kept = (device.token == token, cloud.token == token)
            distance = mixture.total_variation(device.side, cloud.side)
            self.session.agreement.add(kept, distance, aggregator)
        self.session.settle(*heads, token)


class _Lane(IntEnum):
    """Independent streams of noise; none overlaps the streams 0 to 2^32 - 1."""

    DEVICE_DRAFT = 1
    CLOUD_DRAFT = 2
    DEVICE_RESIDUAL = 3
    CLOUD_RESIDUAL = 4
    COINS = 5


_DRAFT_LANE = {Role.DEVICE: _Lane.DEVICE_DRAFT, Role.CLOUD: _Lane.CLOUD_DRAFT}
_COINS = np.arange(3)


def algorithm1_draft(role: Role, side: Side, sampling: Sampling, position: int) -> int:
    """x^s_t drawn from p^s, independently of the other side's; at T = 0 its argmax."""
    return mixture.draft(side, sampling, position, _DRAFT_LANE[role])


def algorithm1_target(
    drafts: tuple[int, int], device: Side, cloud: Side, sampling: Sampling, position: int
) -> int:
    """x_t of Algorithm 1 of the device's draft and the cloud's, for T = 1; at T = 0 the argmax.

    `Sample`: by the coin sigma^a keep one side's x ~ p^a, or reject it in favour of norm(max(0,
    p^b - p^a)). Either way the result is distributed as the mixture of p^a and p^b.
    """
    if sampling.temperature == 0.0:
        return mixture.target(device, cloud, sampling, position)
    eta = mixture.device_weight(device.log_h, cloud.log_h) / ETA_ONE
    stream = mixture.stream(sampling, _Lane.COINS)
    device_coin, cloud_coin, which = noise.uniform(sampling.seed, stream, position, _COINS)
    if which <= 0.5:
        token, own, theirs, lane = drafts[0], device.wire, cloud.wire, _Lane.DEVICE_RESIDUAL
        weight, coin = 1.0 - eta, device_coin
    else:
        token, own, theirs, lane = drafts[1], cloud.wire, device.wire, _Lane.CLOUD_RESIDUAL
        weight, coin = eta, cloud_coin
    p, q = _probability(own, token), _probability(theirs, token)
    if p <= q or coin >= weight * (1.0 - q / p):
        return token
    residual = theirs.weights * own.total - own.at(theirs.ids, own.weights) * theirs.total
    kept = residual > 0
    return mixture.choose(theirs.ids[kept], residual[kept], sampling, position, lane)


def _probability(wire: WireDistribution, token: int) -> float:
    return float(wire.at(np.array([token]), wire.weights)[0]) / wire.total
