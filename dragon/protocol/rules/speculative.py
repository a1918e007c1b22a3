"""Speculative aggregation, the paper's: one side at a time aggregates, and tells the other.

Both sides draft ahead, independently of each other, and send what they draft. The aggregating side
takes the target of Algorithm 1 and sends it with its verdicts on both drafts and the name of the
side that aggregates next. Having named the other side it aggregates nothing more, so that at any
time one side at most does; the target message in flight is the hand-over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dragon.errors import InvalidRequestError
from dragon.protocol.acceptance import Judgement
from dragon.protocol.aggregator_policy import Aggregated
from dragon.protocol.messages import Draft, Role, SessionMessage, Target
from dragon.protocol.session import Session
from dragon.protocol.target_cache import by_role
from dragon.sampling import algorithm1, mixture
from dragon.sampling.algorithm1 import Drafted
from dragon.sampling.mixture import Side


@dataclass(frozen=True)
class Judged:
    """A position just aggregated: both distributions, and what became of the drafts."""

    device: Side
    cloud: Side
    last: Aggregated


NextAggregator = Callable[[Role, Judged], Role]
"""Who aggregates after the side that just did."""


@dataclass
class SpeculativeSession(Session):
    """Algorithm 1 on one side; `first` aggregates where an answer begins or goes on after a fault.

    Raises `InvalidRequestError` for a temperature or a nucleus that Algorithm 1 is not defined for.
    """

    first: Role = Role.DEVICE
    next_aggregator: NextAggregator = lambda aggregator, _: aggregator

    def __post_init__(self) -> None:
        if self.sampling.temperature not in (0.0, 1.0) or self.sampling.top_p != 1.0:
            raise InvalidRequestError(
                "speculative aggregation needs a temperature of 0 or 1 and a top_p of 1; "
                "coupled takes any",
                param="temperature" if self.sampling.top_p == 1.0 else "top_p",
            )
        super().__post_init__()
        self.catch_up = False  # a draft is a draw from its side's distribution, nothing else
        self.aggregator = self.first

    def receive(self, message: SessionMessage) -> None:
        """As in `Session`, and the target of the side that aggregates."""
        if isinstance(message, Target):
            self._receive_target(message)
        else:
            super().receive(message)

    def _propose(self, position: int, side: Side) -> int:
        return algorithm1.draft(self.role, side, self.sampling, position)

    def _decides(self) -> bool:
        return self.aggregator is self.role

    def _judge(self, own: Draft, remote: Draft) -> None:
        device, cloud = by_role(self.role, own, remote)
        token = self._algorithm_1(own, remote)
        kept = (device.token == token, cloud.token == token)
        queues = by_role(self.role, self._own, self._remote)
        queued = [len(queue) if good else 0 for queue, good in zip(queues, kept, strict=True)]
        judged = Judged(device.side, cloud.side, Aggregated(*kept, *queued))
        self.aggregator = self.next_aggregator(self.aggregator, judged)
        self._outbox.append(Target(self.incarnation, own.position, token, *kept, self.aggregator))
        self._take(own, remote, token)

    def _take(self, own: Draft, remote: Draft, token: int) -> None:
        if self.role is Role.DEVICE:
            device, cloud = by_role(self.role, own, remote)
            kept = (device.token == token, cloud.token == token)
            distance = mixture.total_variation(device.side, cloud.side)
            self.agreement.add(Judgement(token, kept, distance))
        super()._take(own, remote, token)

    def _algorithm_1(self, own: Draft, remote: Draft) -> int:
        device, cloud = by_role(self.role, own, remote)
        return algorithm1.target(
            Drafted(device.token, device.side),
            Drafted(cloud.token, cloud.side),
            self.sampling,
            own.position,
        )

    def _receive_draft(self, frame: Draft) -> None:
        current = self.joint and not self.finished and frame.incarnation == self.incarnation
        if current and not algorithm1.possible(frame.token, frame.side):
            self._desync()
        else:
            super()._receive_draft(frame)

    def _receive_target(self, target: Target) -> None:
        if not self.joint or self.finished or target.incarnation != self.incarnation:
            return
        if self._decides() or target.position != len(self.committed):
            self._desync()
            return
        if not self._own or not self._remote:
            self._desync()
            return
        own, remote = self._own.popleft(), self._remote.popleft()
        drafts = [draft.token == target.token for draft in by_role(self.role, own, remote)]
        # It can be computed here as well: nobody else's word is taken for the text.
        if (
            drafts != [target.device_kept, target.cloud_kept]
            or self._algorithm_1(own, remote) != target.token
        ):
            self._desync()
            return
        self.aggregator = target.next
        self._take(own, remote, target.token)
        self._advance()

    def _restart(self, incarnation: int) -> None:
        super()._restart(incarnation)
        self.aggregator = self.first
