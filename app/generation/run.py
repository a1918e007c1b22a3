"""The device's run of an answer that it writes alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from app.generation.answer import Answer
from app.generation.events import Detailed, Event, GenerationRequest
from app.generation.plan import Plan, Retrieved
from dragon.inference.adjustment import Adjustment
from dragon.inference.decoder import Decoder, Decoding
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.run import Run
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.messages import Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.protocol.session import anything
from dragon.protocol.state import Settled
from dragon.sampling.role import Role


class DeviceRun(Run[Event]):
    """An async context: leaving it frees what the answer holds.

    Raises `InvalidRequestError` for sampling parameters that the mode does not support.
    """

    linked = False
    """Whether there is a cloud to write with."""
    asked = False
    """Whether the cloud was sent the question."""

    def __init__(
        self,
        request: GenerationRequest,
        plan: Plan,
        engine: Engine,
        tokenizer: Tokenizer,
        pace: Pace,
        *,
        joint: bool = False,
    ) -> None:
        limits = Limits(tokenizer.end_ids, request.limit)
        # Details need both sides' distributions, and re-scoring may raise the cloud's weight.
        grammar = request.sampling.grammar
        certain = plan.certificates and request.details is None and not plan.rescore_every
        session = session_of(
            Start(
                request.mode,
                request.sampling,
                limits,
                plan.catch_up and engine.model.parallel,
                plan.schedule,
                tokenizer.vocab_size if certain else None,
                plan.budget,
                tokenizer.mask(grammar).permits if grammar else anything,
            ),
            Role.DEVICE,
            pace,
            joint=joint,
        )
        super().__init__(session, engine, pace)
        self.answer = Answer(request, tokenizer, plan.cloud_citations)
        self._request = request
        self._plan = plan
        self._tokenizer = tokenizer
        self._released = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._release("cancelled")

    def write(self, retrieved: Retrieved) -> None:
        """Prefill these rows, then write the answer.

        The sources are reported before the prefill. Raises `ContextLengthError` if not a single
        token fits, `InvalidRequestError` for sampling parameters that contradict each other.
        """
        request = self._request
        decoding = Decoding(
            retrieved.rescoring,
            Adjustment.asked(request.sampling, request.conversation, self._tokenizer),
            detailed=self.answer.details is not None,
            referred=self._plan.budget is not None,
        )
        decoder = self.open(retrieved.rows, request.conversation, decoding)
        limits = self.session.limits
        self.session.limits = replace(limits, tokens=min(limits.tokens, decoder.horizon))
        self._items.put_nowait(self.answer.take_own(retrieved.found()))

    def _begin(self, decoder: Decoder) -> None:
        self.answer.begin()

    def _send(self, message: SessionMessage) -> None:
        """Do nothing: there is no other side."""

    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        delta = self.answer.take(tokens, settled, last=self.session.finished)
        self._items.put_nowait(delta)
        if (cited := self.answer.cited(delta.text)) is not None:
            self._items.put_nowait(cited)
        self._tell_details()
        if self.session.finished or self.answer.stopped:
            self._finish()

    def _finish(self) -> None:
        cuts = None if self._decoder is None else self._decoder.statistics
        finished = self.answer.finish(self.session, self._pace, cuts, linked=self.linked)
        self._tell_details()
        self._items.put_nowait(finished)
        self._items.put_nowait(None)
        # Everything is free for others, whether or not the events are read.
        self._release("finished")

    def _tell_details(self) -> None:
        if self.answer.details is not None and (found := self.answer.details.take_described()):
            self._items.put_nowait(Detailed(found))

    def _release(self, reason: str) -> None:
        """Free all that the answer holds; a second call does nothing."""
        if not self._released:
            self._released = True
            self.close()
            self._part(reason)

    def _part(self, reason: str) -> None:
        """Release the other side, too."""
