"""Steps of the engine, and the delivery of their results to the loops that wait for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dragon.errors import DragonError
from dragon.inference.decoder import Decoder
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


@dataclass(eq=False)
class Step:
    """A queued decode step. A forward whose steps are all stale is abandoned between two layers."""

    decoder: Decoder
    work: Work
    done: Callable[[Outcome], None]
    post: Post
    stale: bool = False
    queued: float = field(default_factory=time.perf_counter)


def deliver(finished: Sequence[tuple[Step, Outcome]]) -> None:
    """Post the outcomes of steps, with one call for all that share a `post`.

    Waking an event loop for each would take longer than the loop's own work.
    """
    together: dict[Post, list[tuple[Step, Outcome]]] = {}
    for step, outcome in finished:
        together.setdefault(step.post, []).append((step, outcome))
    for post, part in together.items():
        post(partial(_finish, part))


def _finish(finished: list[tuple[Step, Outcome]]) -> None:
    for step, outcome in finished:
        try:
            step.done(outcome)
        except Exception:  # one answer's error must not stop the others
            log.exception("an answer failed on its step")
