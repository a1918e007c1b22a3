"""One side's part in an answer: its session, its decoder, and the engine's steps between them.

Everything here happens on the event loop on which the run was made. The results of one engine turn,
for all runs of a service, arrive with one wake-up of that loop.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Generic, ParamSpec, Self, TypeVar

from dragon.errors import DragonError
from dragon.inference import scoring
from dragon.inference.decoder import Decoder, Decoding
from dragon.inference.engine import Engine, Outcome, Step, StepResult
from dragon.inference.estimates import Pace
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import SessionMessage, Work
from dragon.protocol.session import Session
from dragon.protocol.state import Settled
from dragon.sampling import mixture
from dragon.sampling.params import Sampling

log = logging.getLogger(__name__)

Item = TypeVar("Item")
P = ParamSpec("P")


class Run(ABC, Generic[Item]):
    """A session with its decoder, read as one async iterator of what the run produces.

    The iterator ends with the run, or raises the `DragonError` that ended it. Input comes by method
    calls (`receive`); a run never calls its owner.
    """

    def __init__(self, session: Session, engine: Engine, pace: Pace) -> None:
        self.session = session
        self._engine = engine
        self._pace = pace
        self._items: asyncio.Queue[Item | DragonError | None] = asyncio.Queue()
        self._post = asyncio.get_running_loop().call_soon_threadsafe
        self._decoder: Decoder | None = None
        self._step: Step | None = None
        self._prefilled = False
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        item = await self._items.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, DragonError):
            raise item
        return item

    def open(self, rows: Sequence[Row], conversation: Sequence[int], decoding: Decoding) -> Decoder:
        """Have the engine prefill these rows; decoding begins when it is done.

        Raises `ContextLengthError` and `OverloadedError` as `Engine.open` does.
        """
        limit = self.session.limits.tokens
        self._decoder = decoder = self._engine.open(rows, conversation, decoding, limit=limit)
        asyncio.wrap_future(decoder.prefilled).add_done_callback(self._take_prefill)
        return decoder

    def receive(self, message: SessionMessage) -> None:
        self._guarded(self.session.receive, message)

    def advance(self) -> None:
        """Publish what the session has produced, and give the decoder its next work."""
        if self._closed:
            return
        # Tokens first: an answer that ends with them has nothing more to send.
        settled = self.session.take_settled()
        if tokens := self.session.take_commits():
            self._commit(tokens, settled)
        for message in self.session.take_outbox():
            self._send(message)
        if self._closed or self._decoder is None or not self._prefilled:
            return
        if self._step is not None:
            self._step.stale = self.session.stale
            return
        self.session.window = self._pace.window(self._engine.sharing)
        if (work := self.session.next_work()) is not None:
            self._step = self._engine.run(self._decoder, work, self._take_result, self._post)

    def close(self) -> None:
        """Free the decoder before the engine's next step; a second call does nothing."""
        self._closed = True
        if self._decoder is not None:
            self._engine.close(self._decoder)
            self._decoder = None

    @abstractmethod
    def _begin(self, decoder: Decoder) -> None:
        """The rows are prefilled; the first step follows."""

    @abstractmethod
    def _send(self, message: SessionMessage) -> None:
        """Send a message of the session to the other side, in order."""

    @abstractmethod
    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        """Handle tokens that are final on this side, and what they were drawn from."""

    def _fail(self, error: DragonError) -> None:
        self.close()
        self._items.put_nowait(error)

    def _take_prefill(self, prefilled: asyncio.Future[None]) -> None:
        if prefilled.cancelled():
            return
        error = prefilled.exception()
        if self._closed or self._decoder is None:
            return
        if error is not None:
            self._fail(error if isinstance(error, DragonError) else DragonError(str(error)))
            return
        self._prefilled = True
        self._guarded(self._begin, self._decoder)

    def _take_result(self, outcome: Outcome) -> None:
        step, self._step = self._step, None
        if self._closed:
            return
        if not isinstance(outcome, StepResult):
            self._fail(outcome)
            return
        if outcome.sides and step is not None and step.work.tokens:
            work = step.work
            context = max(step.decoder.bases) + work.keep + len(work.tokens)
            self._pace.decode.add(outcome.microseconds / 1e6, context)
        self._guarded(
            self.session.complete, outcome.sides, outcome.microseconds, outcome.log_likelihood
        )

    def _guarded(self, change: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Change the session and advance; an error in either ends this run only."""
        try:
            change(*args, **kwargs)
            self.advance()
        except Exception as error:
            log.exception("an answer failed")
            self._fail(DragonError(f"the answer failed: {error}"))


_GREEDY = Sampling(0.0)


async def written(
    engine: Engine, tokenizer: Tokenizer, asked: str, limit: int, row: Row | None = None
) -> AsyncGenerator[int, None]:
    """The likeliest tokens of a reply, at most `limit`; it continues past end tokens.

    `row` is what precedes the message, by default nothing. Closing the generator frees the engine.
    Raises `DragonError` if the model fails.
    """
    decoder = engine.open(
        [row or Row(tuple(tokenizer.bare_row()), 0.0)],
        tokenizer.conversation([Message("user", asked)]),
        limit=limit,
    )
    try:
        await asyncio.wrap_future(decoder.prefilled)
        work = Work(0, (), 1, 0)
        for position in range(min(limit, decoder.horizon)):
            (side,) = await asyncio.wrap_future(scoring.run(engine, decoder, work))
            token = mixture.draft(side, _GREEDY, position)
            yield token
            work = Work(position, (token,), 1, 0)
    finally:
        engine.close(decoder)
