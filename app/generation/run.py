"""One answer being written on the device: its session, its text, and the events it makes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import TracebackType

from app.generation.attribution import AnswerDetails
from app.generation.cloud_part import Partner
from app.generation.events import (
    Event,
    Finished,
    GenerationRequest,
    Source,
    SourcesFound,
    TextDelta,
)
from app.generation.plan import Plan, Retrieved, opening
from app.generation.stats import Record, cut_statistics, verdicts
from app.generation.timeline import Trace
from app.ledger.writer import Account
from app.peer_link.client import Link
from dragon.errors import DragonError
from dragon.inference.adjustment import Adjustment
from dragon.inference.decoder import Decoder
from dragon.inference.driver import Driver
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.logprobs import DetailMessage, Question
from dragon.inference.tokenizer import TextStream, Tokenizer
from dragon.protocol.committed_text import Settled
from dragon.protocol.messages import Draft, Limits, SessionMessage
from dragon.protocol.rules.registry import Start, session_of
from dragon.sampling.role import Role


class Answer:
    """An async context; left it frees both sides. Without a `link` the device writes alone."""

    def __init__(
        self,
        request: GenerationRequest,
        plan: Plan,
        *,
        engine: Engine,
        tokenizer: Tokenizer,
        link: Link | None,
        pace: Pace,
        account: Account,
    ) -> None:
        self._request = request
        self._account = account
        self._engine = engine
        self._tokenizer = tokenizer
        self._link = link
        self._events: asyncio.Queue[Event | DragonError] = asyncio.Queue()
        self._text = TextStream(tokenizer, request.stop)
        self._record = Record()
        self._trace = Trace()
        self._found = SourcesFound(())
        self._decoder: Decoder | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        limits = Limits(tokenizer.end_ids, plan.limit)
        self._session = session_of(
            Start(request.mode, request.sampling, limits, plan.catch_up, request.schedule),
            Role.DEVICE,
            pace,
            joint=link is not None and link.connected,
        )
        self._driver = Driver(
            self._session,
            engine,
            self._pace,
            post=self._loop.call_soon_threadsafe,
            send=self._send,
            committed=self._commit,
            failed=self._events.put_nowait,
        )
        self._details: AnswerDetails | None = None
        if request.details is not None:
            self._details = AnswerDetails(
                request.details.top, tokenizer, ask=self._ask, tell=self._events.put_nowait
            )
        self._written = 0  # characters of text
        self._finished: Finished | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._released = False
        self._partner: Partner | None = None
        if link is not None:
            self._partner = Partner(
                opening(request, plan),
                link,
                self._session,
                self._driver,
                self._pace,
                plan.deadline,
                opened=account.assign,
                found=self._found_public,
                tell=self._events.put_nowait,
                trace=self._trace,
                detail=self._hear,
                lost=self._lose_details,
            )
        self.over = False

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release("cancelled")

    # In order, by the service.

    def ask_peer(self) -> None:
        """Open the answer on the peer, which looks for its documents while the device does."""
        if self._partner is not None:
            self._partner.ask()

    async def public_sources(self) -> list[Source]:
        """What the peer has found, once it says so; nothing if it is not here, or late."""
        if self._partner is None:
            return []
        await self._partner.heard()
        return [source for source in self._found.sources if source.side == "public"]

    def open(self, retrieved: Retrieved) -> None:
        """Take these rows; their prefill begins. Raises `ContextLengthError` if no token fits."""
        self._decoder = decoder = self._engine.open(
            retrieved.rows,
            self._request.conversation,
            retrieved.rescoring,
            Adjustment.asked(self._request.sampling),
            detailed=self._request.details is not None,
        )
        limits = self._session.limits
        self._session.limits = replace(limits, tokens=min(limits.tokens, decoder.horizon))
        own = retrieved.found()
        if self._details is not None:
            self._details.own_sources = len(own.sources)
        self._tell(replace(own, sources=(*self._found.sources, *own.sources)))

    async def begin(self) -> None:
        """Start writing once the rows are prefilled; raises `DragonError` if that fails."""
        decoder = self._decoder
        assert decoder is not None, "opened first"
        await asyncio.wrap_future(decoder.prefilled)
        self._record.decoding = time.monotonic()
        if self._partner is not None:
            self._watcher = asyncio.create_task(self._partner.watch())
            self._partner.begun()
        self._driver.start(decoder)

    async def next_event(self) -> Event:
        """The next event; raises `DragonError` when the model failed."""
        event = await self._events.get()
        if isinstance(event, DragonError):
            raise event
        self.over = isinstance(event, Finished)
        return event

    # Inside.

    def _send(self, message: SessionMessage) -> None:
        if self._partner is not None and (size := self._partner.send(message)):
            self._record.sent_frames += 1
            self._record.sent_bytes += size
            if isinstance(message, Draft):
                self._trace.draft(Role.DEVICE, message)

    def _found_public(self, sources: list[Source]) -> None:
        own = [source for source in self._found.sources if source.side == "private"]
        self._tell(replace(self._found, sources=(*own, *sources)))

    def _tell(self, found: SourcesFound) -> None:
        self._found = found
        if self._details is not None:
            self._details.sources = len(found.sources)
        self._events.put_nowait(found)

    def _ask(self, question: Question) -> None:
        if self._partner is not None:
            self._partner.ask_about(question)

    def _hear(self, message: DetailMessage) -> None:
        """What the cloud tells of a token."""
        if self._details is not None:
            self._details.hear(message)
            self._conclude()

    def _lose_details(self) -> None:
        """The cloud will not tell of any more tokens."""
        if self._details is not None:
            self._details.lose()
            self._conclude()

    def _commit(self, tokens: list[int], settled: list[Settled]) -> None:
        if self._partner is not None:
            self._partner.note()
        self._record.first = self._record.first or time.monotonic()
        end_ids = self._session.limits.end_ids
        text = ""
        taken = 0
        # One by one, so that what follows a stop string is never counted, however many came.
        while taken < len(tokens) and not self._text.stopped:
            token = tokens[taken]
            taken += 1
            if token not in end_ids:
                text += self._text.push([token])
        self._trace.text(self._record.tokens, taken)
        self._record.tokens += taken
        over = self._session.finished or self._text.stopped
        if over:
            text += self._text.finish()
        self._written += len(text)
        self._events.put_nowait(TextDelta(text, tuple(tokens[:taken])))
        if self._details is not None:
            self._details.take(settled[:taken], self._written)
            if self._partner is not None and not self._partner.present:
                self._details.lose()
        if over:
            self._finish()

    def _finish(self) -> None:
        count = self._record.tokens
        last = self._session.committed[count - 1]
        ended = self._text.stopped or last in self._session.limits.end_ids
        intervals = self._session.intervals()
        self._finished = Finished(
            reason="stop" if ended else "length",
            prompt_tokens=len(self._request.conversation),
            completion_tokens=count,
            participation=tuple((a, min(b, count)) for a, b in intervals if a < count),
            stats=self._statistics(),
            verdicts=verdicts(self._session.agreement.verdicts[:count]),
            trace=tuple(self._trace.entries),
        )
        self._stop_writing()
        if self._details is not None:
            self._details.end(self._written, stopped=self._text.stopped)
        self._conclude()

    def _conclude(self) -> None:
        """End, once all details are told; the cloud may take its time, but not fall silent."""
        if self._finished is None:
            return
        if self._patience is not None:
            self._patience.cancel()
        if self._details is not None and not self._details.complete:
            limit = self._pace.stall_limit()
            self._patience = self._loop.call_later(limit, self._lose_details)
            return
        finished, self._finished = self._finished, None
        self._events.put_nowait(finished)
        # Whether or not anybody reads on, both sides are free for others.
        self._release("finished")

    def _stop_writing(self) -> None:
        """Free this side; again is harmless."""
        self._driver.close()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._decoder is not None:
            self._engine.close(self._decoder)
            self._decoder = None

    def _release(self, reason: str) -> None:
        """Free both sides; again is harmless."""
        if self._released:
            return
        self._released = True
        self._stop_writing()
        if self._patience is not None:
            self._patience.cancel()
        if self._partner is not None:
            self._partner.leave(reason)
        joint = max((end for _, end in self._session.intervals()), default=0)
        private = (source.text for source in self._found.sources if source.side == "private")
        self._account.wrote(map(self._tokenizer.encode, private), self._session.committed, joint)

    def _statistics(self) -> dict[str, float]:
        stats = self._record.statistics(self._session, self._pace, linked=self._partner is not None)
        texts = (source.text for source in self._found.sources)
        stats["document_tokens"] = sum(len(self._tokenizer.encode(text)) for text in texts)
        if self._decoder is not None:
            stats |= cut_statistics(self._decoder.statistics)
        return {name: round(value, 4) for name, value in stats.items()}
