"""The engine's queues, and the delivery of results to the loops that wait for them."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dragon.errors import DragonError
from dragon.inference.decoder import Decoder
from dragon.inference.fairness import SharedQueue
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], object]
Job = tuple[Callable[[], Any], Future[Any]]


@dataclass(frozen=True)
class StepResult:
    """The result of a step: one distribution per output, or None if it was abandoned.

    `microseconds` is the time since it was queued, including waiting for others; `log_likelihood`
    is the decoder's, of the text scored so far.
    """

    sides: list[Side] | None
    microseconds: int
    log_likelihood: float = 0.0


Outcome = StepResult | DragonError


def directly(call: Callable[[], None]) -> None:
    """The `post` of a caller that takes results on the engine's thread."""
    call()


@dataclass(eq=False)
class Step:
    """A queued decode step. A forward is abandoned between two layers once all its steps are stale.

    `post` runs a call of `done` on the thread that waits for it.
    """

    decoder: Decoder
    work: Work
    done: Callable[[Outcome], None]
    post: Post
    stale: bool = False
    queued: float = field(default_factory=time.perf_counter)


@dataclass
class Inbox:
    """The requests that other threads have queued; guarded by the engine's lock."""

    steps: list[Step] = field(default_factory=list)
    openings: SharedQueue[Decoder] = field(default_factory=SharedQueue)
    urgent: SharedQueue[Job] = field(default_factory=SharedQueue)
    idle: deque[Job] = field(default_factory=deque)
    closed: list[Decoder] = field(default_factory=list)
    stopping: bool = False

    def empty(self) -> bool:
        """Whether there is nothing but idle jobs."""
        return not (self.steps or self.openings or self.urgent or self.closed or self.stopping)


def deliver(finished: Sequence[tuple[Step, Outcome]]) -> None:
    """Post the outcomes of steps, with one call for all that share a `post`.

    Waking an event loop for each would take longer than the loop's own work.
    """
    together: dict[Post, list[tuple[Step, Outcome]]] = {}
    for request, outcome in finished:
        together.setdefault(request.post, []).append((request, outcome))
    for post, part in together.items():
        post(partial(_finish, part))


def _finish(finished: list[tuple[Step, Outcome]]) -> None:
    for request, outcome in finished:
        try:
            request.done(outcome)
        except Exception:  # one answer's error must not stop the others
            log.exception("an answer failed on its step")
