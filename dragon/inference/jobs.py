"""What the engine is asked, and how what comes of it gets back to who asked."""

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
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], object]


@dataclass(frozen=True)
class Decoded:
    """What came of a step: a distribution an output, or None when it was abandoned.

    `microseconds` is what the step took its generation, waiting for others included;
    `log_likelihood` is the decoder's, of the text scored so far.
    """

    sides: list[Side] | None
    microseconds: int
    log_likelihood: float = 0.0


Outcome = Decoded | DragonError


def directly(call: Callable[[], None]) -> None:
    """The post of who wants calls on the engine's thread."""
    call()


@dataclass(eq=False)
class Step:
    """A decode step under way. Setting `stale` abandons it between two layers.

    `post` takes a call of `done` to where its owner wants it.
    """

    decoder: Decoder
    work: Work
    done: Callable[[Outcome], None]
    post: Post
    stale: bool = False
    queued: float = field(default_factory=time.perf_counter)


@dataclass
class Inbox:
    """What other threads have asked for and is not begun; guarded by the engine's lock."""

    steps: list[Step] = field(default_factory=list)
    openings: deque[Decoder] = field(default_factory=deque)
    errands: deque[tuple[Callable[[], Any], Future[Any]]] = field(default_factory=deque)
    chores: deque[tuple[Callable[[], Any], Future[Any]]] = field(default_factory=deque)
    closed: list[Decoder] = field(default_factory=list)
    stopping: bool = False

    def idle(self) -> bool:
        """Whether there is nothing to look at but chores."""
        return not (self.steps or self.openings or self.errands or self.closed or self.stopping)


def deliver(finished: Sequence[tuple[Step, Outcome]]) -> None:
    """Post the outcomes of steps, all that go to one place together.

    To wake an event loop for each would take longer than what it then does.
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
        except Exception:  # one answer's, which must not keep the others from theirs
            log.exception("an answer failed on its step")
