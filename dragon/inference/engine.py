"""The engine: one thread that owns the model and steps every decoder that has work.

Requests arrive in queues, results leave through callbacks on its thread. Each turn frees what was
closed, runs a piece of one prefill, then the queued decode steps, including those that arrived
meanwhile, then at most one urgent job (embedding a query, say), so that no answer is delayed for
long and nothing starves. If several callers have steps, they share a turn of limited length. Idle
jobs, such as ingestion, fill the remaining time; while answers are being written they get a small
share of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch

from dragon.errors import (
    ContextLengthError,
    DragonError,
    ModelServerError,
    OverloadedError,
    PreemptedError,
)
from dragon.inference.backends.backend import PIECE, Backend
from dragon.inference.decoder import BY_MODEL, Decoder, Decoding, forward
from dragon.inference.fairness import NOBODY, Caller, Household, SharedQueue, TurnLength, Turns
from dragon.inference.kv_store import KVStore
from dragon.inference.rows import Row
from dragon.localizable import localizable
from dragon.protocol.messages import Work
from dragon.sampling.mixture import Side

log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_WAITING = 256
# The fraction of the last turn's time that the next may wait for decoders to share its forward.
_PATIENCE = 1.0
# While an answer is being written, idle jobs pause for this many times what the last one took:
# fewer than one token in twenty is delayed.
_IDLE_REST = 40
# A household's answers pause for this many times what their last mask took, while others have work:
# forwards are shared, but a mask, of up to a sixth of a step, is computed for one answer alone.
_MASK_REST = 8

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


class Engine:
    """Runs a model's decoders. `batching` puts several of them into one forward.

    `store` keeps documents' keys and values; without it every answer computes them.
    """

    def __init__(
        self, model: Backend, *, batching: bool = True, store: KVStore | None = None
    ) -> None:
        self.model = model
        self.store = store
        self._batching = batching
        self._changed = threading.Condition()
        # What other threads have queued, under its lock.
        self._steps: list[Step] = []
        self._openings = SharedQueue[Decoder]()
        self._urgent = SharedQueue[Job]()
        self._idle_jobs = deque[Job]()
        self._closed: list[Decoder] = []
        self._stopping = False
        # The thread's own.
        self._closing: set[Decoder] = set()
        self._answered: set[Decoder] = set()
        self._awaited: set[Decoder] = set()  # their steps need not wake the thread one by one
        self._prefilling = SharedQueue[tuple[Decoder, Iterator[int]]]()
        self._writing: set[Decoder] = set()
        self._callers: dict[Decoder, Caller] = {}
        self._rests: dict[Household, float] = {}  # until when answers pause after a mask
        self._turn = TurnLength()
        self._turns = Turns()
        self._patience = 0.0
        self._rested = 0.0  # when the next idle job may run beside answers
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()

    @property
    def free_slots(self) -> int:
        return self.model.cache.free

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def sharing(self) -> int:
        """How many answers are being written."""
        return len(self._writing)

    def open(
        self,
        rows: Sequence[Row],
        conversation: Sequence[int],
        decoding: Decoding = BY_MODEL,
        *,
        limit: int | None = None,
    ) -> Decoder:
        """Open a decoder of at most `limit` tokens; its future `prefilled` says when it can run.

        It waits for slots and for room in them. Raises `ContextLengthError` at once if they can
        never suffice, and `OverloadedError` if too many decoders wait already.
        """
        decoder = Decoder(self.model, rows, conversation, decoding, store=self.store, limit=limit)
        if len(rows) > self.model.cache.rows(decoder.positions):
            raise ContextLengthError(
                localizable(
                    "context.passages",
                    "{count} passages, each before the conversation and the answer, take {tokens} "
                    "tokens each, and the engine has room for {room} of them: shorten the "
                    "conversation, lower max_tokens, or ask for fewer passages",
                    count=len(rows),
                    tokens=decoder.positions,
                    room=self.model.cache.rows(decoder.positions),
                )
            )
        with self._changed:
            if len(self._openings) >= MAX_WAITING:
                raise OverloadedError(
                    localizable(
                        "device.waiting",
                        "too many answers are waiting to begin: try again later",
                    )
                )
            self._callers[decoder] = caller = Caller.current()
            self._openings.put(caller, decoder)
            self._changed.notify()
        return decoder

    def run(
        self,
        decoder: Decoder,
        work: Work,
        done: Callable[[Outcome], None],
        post: Post = lambda call: call(),
    ) -> Step:
        """Queue a step of a prefilled decoder, one at a time per decoder.

        `post` runs a call of `done` on the thread that waits for it; by default on the engine's.
        """
        request = Step(decoder, work, done, post)
        with self._changed:
            self._steps.append(request)
            self._awaited.discard(decoder)
            if not self._awaited:
                self._changed.notify()
        return request

    def close(self, decoder: Decoder) -> None:
        """Free a decoder's slots before the next step; its work in progress is abandoned."""
        self._closing.add(decoder)
        with self._changed:
            self._closed.append(decoder)
            self._changed.notify()

    def submit_urgent(self, function: Callable[[], T]) -> Future[T]:
        """Queue a job that an answer waits for, such as embedding its query."""
        future: Future[T] = Future()
        with self._changed:
            self._urgent.put(Caller.current(), (function, future))
            self._changed.notify()
        return future

    def submit_idle(self, function: Callable[[], T]) -> Future[T]:
        """Queue a short low-priority job, which runs when answers leave time for it."""
        future: Future[T] = Future()
        with self._changed:
            self._idle_jobs.append((function, future))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Stop the thread after the current step and free the model; cancel jobs not begun."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        while self._urgent:
            self._urgent.take()[1].cancel()
        for _, future in self._idle_jobs:
            future.cancel()
        self.model.close()

    # On the engine's thread.

    def _loop(self) -> None:
        while True:
            with self._changed:
                while self._quiet:
                    rest = self._rest()
                    if rest == 0:
                        break
                    self._changed.wait(rest)
                self._gather()
                if self._stopping:
                    return
                closed, self._closed = self._closed, []
            self._free(closed)
            self._prefill()
            with self._changed:
                steps, self._steps = self._next_steps()
            self._run_steps([s for s in steps if s.decoder not in self._closing])
            self._run(self._urgent.take)
            with self._changed:
                rested = self._rest() == 0 and (self._answering or self._quiet)
            if rested:
                began = time.perf_counter()
                self._run(self._idle_jobs.popleft)
                ended = time.perf_counter()
                self._rested = ended + _IDLE_REST * (ended - began)

    @property
    def _answering(self) -> bool:
        return self.free_slots < self.model.cache.slots

    def _rest(self) -> float | None:
        """Seconds until an idle job may run; None if there is none."""
        if not self._idle_jobs:
            return None
        return max(0.0, self._rested - time.perf_counter()) if self._answering else 0.0

    def _gather(self) -> None:
        """Wait for the decoders of the last turn, so that they share a forward again.

        Otherwise the first to return would get a forward of its own, and the others the next one.
        """
        deadline = time.perf_counter() + self._patience
        self._awaited = self._answered - {step.decoder for step in self._steps}
        while self._steps and not (self._to_prefill or self._urgent or self._stopping):
            self._awaited -= self._closing
            left = deadline - time.perf_counter()
            if not self._awaited or left <= 0:
                break
            self._changed.wait(left)
        self._awaited = set()

    @property
    def _quiet(self) -> bool:
        """Whether there is nothing but idle jobs, and openings that wait for room."""
        busy = self._steps or self._urgent or self._closed or self._stopping
        return not (busy or self._to_prefill)

    @property
    def _to_prefill(self) -> bool:
        """Whether a prefill can begin or continue."""
        return bool(self._prefilling) or (bool(self._openings) and self._openings.first().fits)

    def _free(self, closed: list[Decoder]) -> None:
        with self._changed:
            self._openings.keep(lambda decoder: decoder not in self._closing)
            self._steps = [step for step in self._steps if step.decoder not in self._closing]
        self._prefilling.keep(lambda begun: begun[0] not in self._closing)
        for decoder in closed:
            if decoder.prefilled.running():
                decoder.prefilled.set_exception(PreemptedError("the answer was closed"))
            decoder.prefilled.cancel()
            decoder.release()
            self._closing.discard(decoder)
            self._writing.discard(decoder)
            self._callers.pop(decoder, None)

    def _next_steps(self) -> tuple[list[Step], list[Step]]:
        """This turn's steps and those left for the next: callers share a turn of limited length."""
        now = time.perf_counter()
        ready: list[Step] = []
        resting: list[Step] = []
        for step in self._steps:
            rests = self._rests.get(self._caller_of(step.decoder).household, 0.0) > now
            (resting if rests else ready).append(step)
        if not ready:
            ready, resting = resting, []
        taken, left = self._turns.shared(
            ready,
            lambda step: self._caller_of(step.decoder),
            self._turn.most,
            self._turn.most_of_several,
        )
        return taken, left + resting

    def _caller_of(self, decoder: Decoder) -> Caller:
        """Who opened the decoder; `NOBODY` once it is closed."""
        return self._callers.get(decoder, NOBODY)

    def _run_steps(self, steps: list[Step]) -> None:
        began = time.perf_counter()
        groups: dict[object, list[Step]] = {}
        for request in steps:
            key = len(request.work.tokens) if self._batching else request
            groups.setdefault(key, []).append(request)
        for group in groups.values():
            self._run_group(group)
        took = time.perf_counter() - began
        if self._batching:
            self._answered = {request.decoder for request in steps}
            self._patience = _PATIENCE * took
        if steps:
            self._turn.add(len(steps), took)

    def _run_group(self, group: list[Step]) -> None:
        group.sort(key=lambda request: request.decoder.slots)  # adjacent slots, in few runs

        def cancelled() -> bool:
            return all(request.stale or request.decoder in self._closing for request in group)

        outcomes: Sequence[Outcome]
        try:
            decoders, works = [s.decoder for s in group], [s.work for s in group]
            parts = forward(self.model, decoders, works, cancelled)
            outcomes = [self._outcome(*each) for each in zip(group, parts, strict=True)]
        except PreemptedError:
            outcomes = [StepResult(None, 0)] * len(group)
        except ModelServerError as error:
            outcomes = [error] * len(group)
        except Exception as error:
            log.exception("a decode step failed")
            outcomes = [DragonError(f"the model failed: {error}")] * len(group)
        wanted = zip(group, outcomes, strict=True)
        _deliver([(request, o) for request, o in wanted if request.decoder not in self._closing])

    def _outcome(self, request: Step, logits: torch.Tensor | None) -> Outcome:
        """A step's outcome, from its logits. If it fails, other steps of its forward go on."""
        decoder = request.decoder
        masking_s = decoder.masking_s
        try:
            sides = decoder.sides(request.work, logits)
        except Exception as error:
            log.exception("a decode step failed")
            return DragonError(f"the model failed: {error}")
        now = time.perf_counter()
        if masked_s := decoder.masking_s - masking_s:
            household = self._caller_of(decoder).household
            self._rests = {each: until for each, until in self._rests.items() if until > now}
            self._rests[household] = now + _MASK_REST * masked_s
        return StepResult(sides, round((now - request.queued) * 1e6), decoder.likelihood.value)

    def _prefill(self) -> None:
        """Begin the next opening if there is room, and run one piece of a prefill.

        Prefills take turns, so that a short one finishes soon beside a long one.
        """
        with self._changed:
            openings = self._openings
            opened = openings.take() if openings and openings.first().acquire() else None
        # Skip one that was given up meanwhile; closing it frees the slots.
        if opened is not None and opened.prefilled.set_running_or_notify_cancel():
            pieces = opened.pieces(lambda: opened in self._closing)
            self._prefilling.put(self._caller_of(opened), (opened, pieces))
        if not self._prefilling:
            return
        decoder, pieces = self._prefilling.take()
        try:
            tokens = 0
            while tokens < PIECE:
                tokens += next(pieces)
        except StopIteration:
            self._writing.add(decoder)
            decoder.prefilled.set_result(None)
        except (PreemptedError, ModelServerError) as error:
            decoder.prefilled.set_exception(error)
        except Exception as error:
            log.exception("a prefill failed")
            decoder.prefilled.set_exception(DragonError(f"the model failed: {error}"))
        else:
            self._prefilling.put(self._caller_of(decoder), (decoder, pieces))

    def _run(self, take: Callable[[], Job]) -> None:
        with self._changed:
            try:
                function, future = take()
            except LookupError:
                return
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)


def _deliver(finished: Sequence[tuple[Step, Outcome]]) -> None:
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
